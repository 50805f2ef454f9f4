//! Whether the owners of notification rules may still see what the rules are about: a rule acts with its owner's rights,
//! whether or not the owner is there.

use ::jobs::Kind;
use futures::future::{BoxFuture, FutureExt as _};
use history::notifications::Claim;
use history::notifications::alerts::QUOTA;
use history::notifications::deliver::{Permission, Rights};
use kube::Client;

use crate::access::{Access, Right};
use crate::identity::Subject;

/// Asks the cluster.
pub struct Owners {
    access: Access,
}

impl Owners {
    /// Creates it from a client as the service's own account.
    pub fn new(own: &Client) -> Self {
        Self { access: Access::new(own.clone()) }
    }

    async fn permission(&self, claim: &Claim) -> Permission {
        let Ok(owner) = serde_json::from_str::<Subject>(&claim.subject) else { return Permission::Revoked };
        let kind = claim.transition().map(|transition| transition.kind).unwrap_or_default();
        if kind == QUOTA {
            let right = Right::on("list", "resourcequotas", &claim.namespace);
            return match self.access.among_those_of(&owner, vec![right]).await {
                // The rule is about nothing else.
                Ok(allowed) if allowed.is_empty() => Permission::Revoked,
                Ok(_) => Permission::Granted,
                Err(problem) => Permission::Unknown(problem.message),
            };
        }
        let kinds = claim.kinds.iter().filter_map(|kind| Kind::named(kind));
        let rights = kinds.map(|kind| Right::on_jobs("list", kind, &claim.namespace)).collect();
        let allowed = match self.access.among_those_of(&owner, rights).await {
            Ok(allowed) if allowed.is_empty() => return Permission::Revoked,
            Ok(allowed) => allowed,
            Err(problem) => return Permission::Unknown(problem.message),
        };
        // A test is about no kind.
        match Kind::named(&kind) {
            Some(kind) if !allowed.iter().any(|right| right.resource == kind.plural()) => Permission::Denied,
            _ => Permission::Granted,
        }
    }
}

impl Rights for Owners {
    fn of<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Permission> {
        self.permission(claim).boxed()
    }
}
