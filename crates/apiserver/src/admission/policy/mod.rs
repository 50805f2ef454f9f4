//! Admission policies: rules about writes, written in CEL.
//!
//! Source: apiserver `pkg/admission/plugin/policy/{generic,validating,mutating}`. A policy has no effect
//! without a binding. Each matching binding is evaluated once for each set of [`parameters`]. Both are
//! compiled once per revision ([`definition`]); [`scene`] provides what their expressions can access.

mod definition;
mod mutating;
mod parameters;
mod scene;
mod validating;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::{Attributes, Round, webhook};
use crate::status::StatusError;
use crate::store::{Resource, Store};
use definition::{Binding, Policy};
use webhook::invocation::Invocation;

pub use mutating::round;
pub use validating::validate;

const GROUP: &str = "admissionregistration.k8s.io";

/// A cache by plural and name, with the revision that each entry was compiled from.
type Compiled<T> = Mutex<HashMap<(&'static str, String), (u64, Arc<T>)>>;

/// The compiled policies and bindings.
#[derive(Default)]
pub struct Policies {
    policies: Compiled<Policy>,
    bindings: Compiled<Binding>,
}

/// The resources of policies and bindings.
const VALIDATING: [&str; 2] = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
const MUTATING: [&str; 2] = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"];

impl Policies {
    /// Returns all policies of a kind with their bindings, both ordered by name.
    fn all(&self, at: &Attributes<'_>, kind: [&'static str; 2]) -> Vec<(Arc<Policy>, Vec<Arc<Binding>>)> {
        let store = &at.context.server.store;
        let [policies, bindings] = kind;
        // Admission configuration is exempt from policies.
        if at.kind().group == GROUP || store.count(&Resource::new(GROUP, policies)) == 0 {
            return Vec::new();
        }
        let policies = compiled(&self.policies, store, policies, Policy::of);
        let bindings = compiled(&self.bindings, store, bindings, Binding::of);
        let with_bindings = |policy: Arc<Policy>| {
            let own = bindings.iter().filter(|binding| binding.policy == policy.name).cloned().collect();
            (policy, own)
        };
        policies.into_iter().map(with_bindings).collect()
    }
}

fn compiled<T>(
    known: &Compiled<T>,
    store: &Store,
    plural: &'static str,
    compile: fn(&Value) -> T,
) -> Vec<Arc<T>> {
    let records = store.list(&Resource::new(GROUP, plural), None).records;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|(of, name), _| *of != plural || records.iter().any(|record| record.key.as_str() == name));
    let of = |record: &Arc<crate::store::Record>| {
        let key = (plural, record.key.as_str().to_owned());
        match known.get(&key) {
            Some((revision, made)) if *revision == record.revision => made.clone(),
            _ => {
                let made = Arc::new(compile(&record.value()));
                known.insert(key, (record.revision, made.clone()));
                made
            }
        }
    };
    records.iter().map(of).collect()
}

/// A policy to evaluate, with one binding and one set of parameters.
struct Due {
    policy: Arc<Policy>,
    binding: Arc<Binding>,
    invocation: Invocation,
    parameters: Value,
}

/// A policy or binding that cannot be evaluated.
struct Broken {
    policy: Arc<Policy>,
    binding: Option<Arc<Binding>>,
    why: String,
    /// Whether its parameters cannot be found, so that no expression was evaluated.
    is_misconfigured: bool,
}

/// Returns the policies to evaluate for a write, and those that cannot be evaluated.
fn due(
    at: &Attributes<'_>,
    kind: [&'static str; 2],
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<(Vec<Due>, Vec<Broken>), StatusError> {
    let (mut due, mut broken) = (Vec::new(), Vec::new());
    for (policy, bindings) in at.context.server.policies.all(at, kind) {
        let Some(matched) = policy.matching.kind(at, object, old)? else { continue };
        let of_parameters = match parameters::kind(at, &policy) {
            Ok(kind) => kind,
            Err(why) => {
                let why = format!("failed to configure policy: {why}");
                broken.push(Broken { policy, binding: None, why, is_misconfigured: true });
                continue;
            }
        };
        for binding in bindings {
            if let Some(narrowed) = &binding.matching
                && narrowed.kind(at, object, old)?.is_none()
            {
                continue;
            }
            match parameters::collect(at, of_parameters.as_ref(), &binding) {
                Ok(found) => due.extend(found.into_iter().map(|parameters| Due {
                    policy: policy.clone(),
                    binding: binding.clone(),
                    invocation: Invocation { kind: matched.clone() },
                    parameters,
                })),
                Err(why) => {
                    let why = format!("failed to configure binding: {why}");
                    let (policy, binding) = (policy.clone(), Some(binding));
                    broken.push(Broken { policy, binding, why, is_misconfigured: true });
                }
            }
        }
    }
    Ok((due, broken))
}
