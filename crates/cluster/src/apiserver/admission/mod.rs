//! Admission: what may still be changed about a write, and what may still refuse it, once it is known who writes what.
//!
//! A write is [`Attributes`] with the object as it would be and as it was. [`mutate`] runs before an object is
//! validated: the built-in plug-ins that fill in, the mutating policies, the mutating webhooks, and all once more where
//! one of those changed something. [`validate`] runs right before the commit: the built-in plug-ins that refuse, the
//! validating policies and webhooks, and last the quotas, whose lock ([`Held`]) the commit keeps. The order is that of kube-apiserver's
//! `AllOrderedPlugins` (`pkg/kubeapiserver/options/plugins.go`). A dry run takes the same way and leaves nothing.
//!
//! Nothing is stored here but a quota's status ([`quota`]).

mod limit_range;
mod node;
mod pod_security;
mod pods;
mod policy;
pub mod quota;
mod storage_class;
mod webhook;

use serde_json::{Value, json};

use super::call::Call;
use super::rules::Kind;
use super::status::{self, Refusal};
use super::{create, rules};

pub use policy::Policies;
pub use webhook::Hooks;

/// What a request does to an object (`admission.Operation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The object is not there yet.
    Create,
    /// A stream into a pod is opened.
    Connect,
    /// The object, or a part of it, changes.
    Update,
    /// The object goes.
    Delete,
}

impl Operation {
    /// As reviews and rules name it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Connect => "CONNECT",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// What is known of a write beside the object itself (`admission.Attributes`).
pub struct Attributes<'a> {
    /// The request: resource, subresource, user.
    pub call: &'a Call<'a>,
    /// What it does.
    pub operation: Operation,
    /// The object's name; empty while it is still to be generated.
    pub name: &'a str,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: Value,
    /// Whether nothing is to come of it.
    pub dry_run: bool,
}

impl<'a> Attributes<'a> {
    /// A write of the object that the request's path names.
    pub fn of(call: &'a Call<'a>, operation: Operation, name: &'a str) -> Self {
        let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if call.query.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if !call.query.field_manager.is_empty() {
            options["fieldManager"] = call.query.field_manager.as_str().into();
        }
        if let Some(validation) = call.query.raw.get("fieldValidation") {
            options["fieldValidation"] = validation.as_str().into();
        }
        Self { call, operation, name, options, dry_run: call.query.dry_run }
    }

    /// A deletion, which has options of its own.
    pub fn of_deletion(call: &'a Call<'a>, name: &'a str, options: Value, dry_run: bool) -> Self {
        Self { call, operation: Operation::Delete, name, options, dry_run }
    }

    /// The kind of the resource.
    pub fn kind(&self) -> &'a Kind {
        &self.call.entry.kind
    }

    /// The namespace that the write is about; that of a Namespace is itself.
    pub fn namespace(&self) -> Option<&'a str> {
        if self.kind().is("", "Namespace") && !self.name.is_empty() {
            return Some(self.name);
        }
        self.call.action.namespace
    }

    /// Whether what is written is the object itself, rather than a Scale, a Binding or an Eviction.
    pub fn is_whole(&self) -> bool {
        let kind = self.kind();
        kind.subresource(self.subresource()).is_none_or(|part| part.takes.2 == kind.kind)
    }

    /// Whether it creates a pod.
    pub fn is_new_pod(&self) -> bool {
        self.kind().is("", "Pod") && self.subresource().is_empty() && self.operation == Operation::Create
    }

    /// 403, about the object's name or, before it has one, what its name begins with (`admission.NewForbidden`).
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> Refusal {
        let metadata = object.map_or(&Value::Null, |object| &object["metadata"]);
        let names = [self.name, text(&metadata["name"]), text(&metadata["generateName"])];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        status::forbidden(self.call.about_name(name), why)
    }

    /// The subresource, or empty.
    pub fn subresource(&self) -> &'a str {
        self.call.action.subresource
    }
}

/// What a commit keeps until it is done. Dropping it lets go.
#[must_use = "quotas count exactly only while this is kept"]
pub struct Held(Option<quota::Lease>);

impl Held {
    /// Nothing is kept.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// The write is done: quotas show it.
    pub async fn settle(self, call: &Call<'_>) {
        match self.0 {
            Some(lease) => lease.settle(call.server).await,
            None => quota::changed(call.server, call.action.namespace),
        }
    }
}

/// What came of asking those that may change an object, policies or webhooks, by their places in their order.
#[derive(Debug, Default)]
struct Round {
    /// Who was asked, and whether it is asked again where others changed the object after it.
    asked: Vec<(usize, bool)>,
    /// The last that changed the object.
    changed_by: Option<usize>,
}

impl Round {
    /// Who is to be asked again; `is_changed` says whether the object changed after the round.
    fn due(&self, is_changed: bool) -> Vec<usize> {
        // One that was asked before the last change has not seen it; one after it has.
        let again = |place: usize| is_changed || self.changed_by.is_some_and(|last| place < last);
        let due = self.asked.iter().filter(|(place, reinvoke)| *reinvoke && again(*place));
        due.map(|(place, _)| *place).collect()
    }
}

/// Lets plug-ins, policies and webhooks change an object that is to be written. A deletion has none.
///
/// # Errors
/// The first refusal.
pub async fn mutate(at: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
    fill_in(at, object, old)?;
    let policies = policy::round(at, object, old, None)?;
    let hooks = webhook::round(at, object, old, None).await?;
    if policies.changed_by.is_none() && hooks.changed_by.is_none() {
        return Ok(());
    }
    let before = object.clone();
    fill_in(at, object, old)?;
    let due = policies.due(hooks.changed_by.is_some() || *object != before);
    if !due.is_empty() {
        policy::round(at, object, old, Some(&due))?;
    }
    let due = hooks.due(*object != before);
    if !due.is_empty() {
        webhook::round(at, object, old, Some(&due)).await?;
    }
    Ok(())
}

/// The built-in plug-ins that fill in.
fn fill_in(at: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
    if object.is_null() {
        return Ok(());
    }
    limit_range::fill_in(at, object);
    pods::fill_in(at, object, old)?;
    storage_class::fill_in(at, object);
    Ok(())
}

/// Asks whether a write may be; the object is absent for a deletion.
///
/// # Errors
/// The first refusal.
pub async fn validate(
    at: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Held, Refusal> {
    node::restrict(at, object, old)?;
    if let Some(object) = object {
        limit_range::validate(at, object, old)?;
        pod_security::check(at, object, old)?;
        pods::validate_class(at, object)?;
        storage_class::validate(at, object, old)?;
    }
    policy::validate(at, object, old)?;
    webhook::validate(at, object, old).await?;
    Ok(Held(quota::check(at, object, old).await?))
}

/// Asks validating policies and webhooks whether a stream may be opened; what they see is `options`.
///
/// # Errors
/// The first refusal.
pub async fn connect(call: &Call<'_>, options: &Value) -> Result<(), Refusal> {
    let at = Attributes {
        call,
        operation: Operation::Connect,
        name: call.action.name,
        options: Value::Null,
        dry_run: false,
    };
    policy::validate(&at, Some(options), None)?;
    webhook::validate(&at, Some(options), None).await
}

/// Brings an object that admission changed back into its kind's form: decoded, defaulted.
///
/// # Errors
/// 500: whoever changed it did so wrongly.
fn settle(at: &Attributes<'_>, object: &mut Value) -> Result<(), Refusal> {
    if !at.is_whole() {
        return Ok(());
    }
    let kind = at.kind();
    create::check_type(at.call, object).map_err(|refusal| status::internal(refusal.message))?;
    rules::drop_unknown(kind, object, &[], super::query::FieldValidation::Ignore)
        .map_err(|refusal| status::internal(refusal.message))?;
    rules::default(kind, object);
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
