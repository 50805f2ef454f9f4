//! Hands what the operator's webhook sees to the training service of the same process.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use operator::webhook::{Admission, Sink, Unrecorded};
use service::{Service, contract};

/// The service, once it runs.
#[derive(Default)]
pub struct Audit(OnceLock<Arc<Service>>);

impl Audit {
    /// Records in this service from now on.
    pub fn begin(&self, service: &Arc<Service>) {
        let _ = self.0.set(service.clone());
    }
}

impl Sink for Audit {
    fn record(
        &self,
        admissions: Vec<Admission>,
    ) -> Pin<Box<dyn Future<Output = Result<Vec<String>, Unrecorded>> + Send + '_>> {
        Box::pin(async move {
            let not_yet = || Unrecorded::Failed("the training service does not run yet".to_owned());
            let service = self.0.get().ok_or_else(not_yet)?;
            let admissions = admissions.into_iter().map(message).collect();
            service::record_admissions(service, admissions).await.map_err(|problem| {
                match problem.status.is_client_error() {
                    true => Unrecorded::Refused(problem.to_string()),
                    false => Unrecorded::Failed(problem.to_string()),
                }
            })
        })
    }
}

fn message(admission: Admission) -> contract::Admission {
    let Admission {
        review,
        at,
        user,
        groups,
        verb,
        resource,
        namespace,
        name,
        request,
        status,
        reason,
        program,
    } = admission;
    contract::Admission {
        review,
        at,
        user,
        groups,
        verb,
        resource,
        namespace,
        name,
        request,
        status,
        reason,
        program,
    }
}
