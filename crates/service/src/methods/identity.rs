//! Who the caller is, and what the caller may do.

use std::sync::Arc;

use jobs::{Kind, preflight};

use crate::contract::{GetIdentityRequest, Identity, KindSupport, Permission};
use crate::filter::kind;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;

/// Returns the caller.
pub async fn get_identity(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetIdentityRequest,
) -> Result<Identity, Problem> {
    let kind = kind(&request.kind)?;
    let rights = match request.namespace.as_str() {
        "" => Vec::new(),
        namespace => preflight::rights(&caller.client, kind, namespace).await?,
    };
    let permissions = rights.into_iter().map(|right| Permission {
        verb: right.verb,
        resource: right.what,
        allowed: right.allowed,
    });
    Ok(Identity {
        user: caller.user.clone(),
        groups: caller.groups.clone(),
        permissions: permissions.collect(),
        sends_email: service.keep.notifications.mail.is_some(),
        kinds: Kind::ALL.into_iter().map(|kind| support(kind, service.watches.served.get(kind))).collect(),
    })
}

fn support(kind: Kind, is_served: Option<bool>) -> KindSupport {
    let state = match is_served {
        Some(true) => "Installed",
        Some(false) => "NotInstalled",
        None => "Unknown",
    };
    KindSupport { kind: kind.name().to_lowercase(), state: state.to_owned() }
}
