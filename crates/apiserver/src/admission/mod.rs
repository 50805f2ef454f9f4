//! Admission: mutates and validates authorized writes.
//!
//! A write is described by [`Attributes`], the new object and the old one. [`mutate`] runs before an object
//! is validated: the mutating built-in plug-ins, policies and webhooks, and all of them again if a policy or
//! webhook changed something. [`validate`] runs right before the commit: the validating built-in plug-ins,
//! policies and webhooks, and finally the quotas, whose lock ([`QuotaLock`]) the commit holds. The order is that
//! of kube-apiserver's `AllOrderedPlugins` (`pkg/kubeapiserver/options/plugins.go`). A dry run does the same
//! without effects.
//!
//! Admission stores nothing but a quota's status ([`quota`]).

mod limit_range;
mod node;
mod pod_security;
mod pods;
mod policy;
pub mod quota;
mod storage_class;
mod webhook;

use serde_json::{Value, json};

use super::request_context::RequestContext;
use super::status::{self, StatusError};
use super::{decoding, type_meta};
use objects::Kind;

pub use policy::Policies;
pub use webhook::Hooks;

/// The operation of a request (`admission.Operation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Creates the object.
    Create,
    /// Opens a stream into a pod.
    Connect,
    /// Updates the object or a subresource.
    Update,
    /// Deletes the object.
    Delete,
}

impl Operation {
    /// Returns the name used in reviews and rules.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Connect => "CONNECT",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// The attributes of a write, other than the object (`admission.Attributes`).
pub struct Attributes<'a> {
    /// The request: resource, subresource, user.
    pub context: &'a RequestContext<'a>,
    /// The operation.
    pub operation: Operation,
    /// The object's name; empty if it is yet to be generated.
    pub name: &'a str,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    pub options: Value,
    /// Whether this is a dry run.
    pub dry_run: bool,
}

impl<'a> Attributes<'a> {
    /// Creates the attributes of a write to the object in the request's path.
    pub fn of(context: &'a RequestContext<'a>, operation: Operation, name: &'a str) -> Self {
        let kind = if operation == Operation::Create { "CreateOptions" } else { "UpdateOptions" };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if context.query.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if !context.query.field_manager.is_empty() {
            options["fieldManager"] = context.query.field_manager.as_str().into();
        }
        if let Some(validation) = context.query.raw.get("fieldValidation") {
            options["fieldValidation"] = validation.as_str().into();
        }
        Self { context, operation, name, options, dry_run: context.query.dry_run }
    }

    /// Creates the attributes of a deletion, which has options of its own.
    pub fn of_deletion(
        context: &'a RequestContext<'a>,
        name: &'a str,
        options: Value,
        dry_run: bool,
    ) -> Self {
        Self { context, operation: Operation::Delete, name, options, dry_run }
    }

    /// Returns the kind of the resource.
    pub fn kind(&self) -> &'a Kind {
        &self.context.entry.kind
    }

    /// Returns the namespace of the write; for a Namespace, its own name.
    pub fn namespace(&self) -> Option<&'a str> {
        if self.kind().is("", "Namespace") && !self.name.is_empty() {
            return Some(self.name);
        }
        self.context.action.namespace
    }

    /// Returns whether the object itself is written, rather than a Scale, a Binding or an Eviction.
    pub fn is_whole(&self) -> bool {
        let kind = self.kind();
        kind.subresource(self.subresource()).is_none_or(|part| part.takes.2 == kind.kind)
    }

    /// Returns whether a pod is created.
    pub fn is_new_pod(&self) -> bool {
        self.kind().is("", "Pod") && self.subresource().is_empty() && self.operation == Operation::Create
    }

    /// 403 for the object's name or, before it has one, its `generateName` (`admission.NewForbidden`).
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> StatusError {
        let metadata = object.map_or(&Value::Null, |object| &object["metadata"]);
        let names = [self.name, text(&metadata["name"]), text(&metadata["generateName"])];
        let name = names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown");
        status::forbidden(self.context.about_name(name), why)
    }

    /// Returns the subresource, or an empty string.
    pub fn subresource(&self) -> &'a str {
        self.context.action.subresource
    }
}

/// The locks that a commit holds until it is done. Dropping it releases them.
#[must_use = "quotas count exactly only while this is kept"]
pub struct QuotaLock(Option<quota::Lease>);

impl QuotaLock {
    /// Holds no lock.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Updates the quotas' status after the commit.
    pub async fn settle(self, context: &RequestContext<'_>) {
        match self.0 {
            Some(lease) => lease.settle(context.server).await,
            None => quota::changed(context.server, context.action.namespace),
        }
    }
}

/// The result of one round of mutating policies or webhooks, identified by their positions.
#[derive(Debug, Default)]
struct Round {
    /// Those that were called, and whether each allows reinvocation.
    asked: Vec<(usize, bool)>,
    /// The last one that changed the object.
    changed_by: Option<usize>,
}

impl Round {
    /// Returns those to reinvoke; `is_changed` says whether the object also changed after the round.
    fn due(&self, is_changed: bool) -> Vec<usize> {
        // Only those called before the last change have to see it.
        let again = |place: usize| is_changed || self.changed_by.is_some_and(|last| place < last);
        let due = self.asked.iter().filter(|(place, reinvoke)| *reinvoke && again(*place));
        due.map(|(place, _)| *place).collect()
    }
}

/// Runs mutating admission on an object to be written. It is null for a deletion.
///
/// # Errors
/// The first error.
pub async fn mutate(at: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), StatusError> {
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

/// Runs the mutating built-in plug-ins.
fn fill_in(at: &Attributes<'_>, object: &mut Value, old: Option<&Value>) -> Result<(), StatusError> {
    if object.is_null() {
        return Ok(());
    }
    limit_range::fill_in(at, object);
    pods::fill_in(at, object, old)?;
    storage_class::fill_in(at, object);
    Ok(())
}

/// Runs validating admission; the object is `None` for a deletion.
///
/// # Errors
/// The first error.
pub async fn validate(
    at: &Attributes<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<QuotaLock, StatusError> {
    node::restrict(at, object, old)?;
    if let Some(object) = object {
        limit_range::validate(at, object, old)?;
        pod_security::check(at, object, old)?;
        pods::validate_class(at, object)?;
        storage_class::validate(at, object, old)?;
    }
    policy::validate(at, object, old)?;
    webhook::validate(at, object, old).await?;
    Ok(QuotaLock(quota::check(at, object, old).await?))
}

/// Runs validating policies and webhooks before a stream is opened; their object is `options`.
///
/// # Errors
/// The first error.
pub async fn connect(context: &RequestContext<'_>, options: &Value) -> Result<(), StatusError> {
    let at = Attributes {
        context,
        operation: Operation::Connect,
        name: context.action.name,
        options: Value::Null,
        dry_run: false,
    };
    policy::validate(&at, Some(options), None)?;
    webhook::validate(&at, Some(options), None).await
}

/// Decodes an object that admission changed and sets its defaults.
///
/// # Errors
/// 500 if the change made it invalid.
fn settle(at: &Attributes<'_>, object: &mut Value) -> Result<(), StatusError> {
    if !at.is_whole() {
        return Ok(());
    }
    let kind = at.kind();
    type_meta::check_type(at.context, object).map_err(status::internal)?;
    decoding::drop_unknown(kind, object, &[], super::query::FieldValidation::Ignore)
        .map_err(status::internal)?;
    decoding::default(kind, object);
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
