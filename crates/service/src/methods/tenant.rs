//! Whose records of a namespace a caller may read: a name can be used again by others.

use ::jobs::Kind;
use history::namespaces::Tenant;

use crate::access::Right;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::service::Service;

/// Returns whose records a caller may read who has a right on jobs of these kinds in a namespace: those of earlier
/// namespaces of its name only with the same right everywhere.
///
/// # Errors
/// 503 if that is not known now.
pub async fn of(
    service: &Service,
    caller: &Caller,
    verb: &'static str,
    kinds: &[Kind],
) -> Result<Tenant, Problem> {
    service.tenants.require_known()?;
    for kind in kinds {
        if !service.access.may(caller, Right::on_jobs(verb, *kind, "")).await? {
            return Ok(Tenant::Present);
        }
    }
    Ok(Tenant::Any)
}
