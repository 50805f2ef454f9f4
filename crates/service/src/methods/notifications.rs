//! Rules about who is notified of what, and the deliveries.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use history::notifications::{self, Destination, NewRule, Rule, Secret, Transitions};
use history::store::Cursor;
use http::StatusCode;

use super::history::{not_a_page, page};
use crate::call::proper;
use crate::contract::{
    DeleteNotificationRuleRequest, DeleteNotificationRuleResponse, Delivery, GetNotificationRuleRequest,
    ListDeliveriesRequest, ListDeliveriesResponse, ListNotificationRulesRequest,
    ListNotificationRulesResponse, NotificationRule, PutNotificationRuleRequest, TestNotificationRuleRequest,
};
use crate::filter::kind;
use crate::identity::Caller;
use crate::operation;
use crate::problem::Problem;
use crate::row::{count, time};
use crate::service::Service;

/// The size of a page of deliveries if none is given.
const PAGE: u32 = 100;
/// The most phases, reasons or causes of a rule, and the longest of them in bytes.
const MOST_WORDS: usize = 50;
const LONGEST_WORD: usize = 128;
/// What a key begins with, as in Standard Webhooks.
const KEY: &str = "whsec_";
/// What the audit log calls rules.
const RESOURCE: &str = "notifications";

/// The store's id of a rule: a name is unique within its namespace, which has no slash.
fn id(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn name_of(id: &str) -> String {
    id.split_once('/').map_or(id, |(_, name)| name).to_owned()
}

fn no_rule(namespace: &str, name: &str) -> Problem {
    let message = format!("there is no notification rule \"{name}\" in namespace \"{namespace}\"");
    Problem::new(StatusCode::NOT_FOUND, "NotFound", message)
}

/// Lists rules.
pub async fn list_notification_rules(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: ListNotificationRulesRequest,
) -> Result<ListNotificationRulesResponse, Problem> {
    let mut rules = Vec::new();
    for rule in notifications::rules(&service.kept.opened()?.store, &request.namespace).await? {
        rules.push(shown(&service, rule, false).await?);
    }
    Ok(ListNotificationRulesResponse { rules })
}

/// Gets a rule.
pub async fn get_notification_rule(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: GetNotificationRuleRequest,
) -> Result<NotificationRule, Problem> {
    let GetNotificationRuleRequest { namespace, name } = &request;
    let store = &service.kept.opened()?.store;
    match notifications::rule(store, namespace, &id(namespace, name)).await? {
        Some(rule) => shown(&service, rule, false).await,
        None => Err(no_rule(namespace, name)),
    }
}

/// Creates or replaces a rule.
pub async fn put_notification_rule(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: PutNotificationRuleRequest,
) -> Result<NotificationRule, Problem> {
    let PutNotificationRuleRequest {
        namespace, name, job, phases, reasons, causes, secret, disabled, ..
    } = &request;
    operation::about(RESOURCE, name, None);
    service.tenants.require_known()?;
    for (field, words) in [("phases", phases), ("reasons", reasons), ("causes", causes)] {
        if words.len() > MOST_WORDS || words.iter().any(|word| word.len() > LONGEST_WORD) {
            let fault = format!("has more than {MOST_WORDS} words, or one of more than {LONGEST_WORD} bytes");
            return Err(Problem::invalid(field, fault, "leave some out, or the whole list for all"));
        }
    }
    let rule = NewRule {
        id: id(namespace, name),
        namespace: namespace.clone(),
        job: if job.is_empty() { None } else { Some(uid_of(&service, &request).await?) },
        owner: caller.user.clone(),
        enabled: !disabled,
        transitions: Transitions { phases: phases.clone(), reasons: reasons.clone(), causes: causes.clone() },
        destination: destination(&service, &request)?,
        secret: if secret.is_empty() { None } else { Some(key(secret)?) },
    };
    let store = &service.kept.opened()?.store;
    let put = notifications::put_rule(store, rule, &service.keep.notifications.policy).await;
    let (rule, is_new_key) = put.map_err(|error| match error {
        history::Error::Invalid(fault) => {
            let field = if request.url.is_empty() { "email" } else { "url" };
            Problem::invalid(field, fault, "name a destination that everybody may reach")
        }
        other => other.into(),
    })?;
    shown(&service, rule, is_new_key && secret.is_empty()).await
}

/// The UID of the only job that a rule is about. A rule that is written again may be about a job that was deleted since.
async fn uid_of(service: &Service, request: &PutNotificationRuleRequest) -> Result<String, Problem> {
    let PutNotificationRuleRequest { namespace, name, job, .. } = request;
    proper("job", job)?;
    let kind = kind(&request.kind)?;
    if let Some(entry) = service.board.get(&(kind, namespace.clone(), job.clone())) {
        return Ok(entry.row.uid.clone());
    }
    let known = notifications::rule(&service.kept.opened()?.store, namespace, &id(namespace, name)).await?;
    if let Some(uid) = known.and_then(|rule| rule.job)
        && job_of(service, &uid).await? == Some((kind.name().to_owned(), job.clone()))
    {
        return Ok(uid);
    }
    let message = format!("{} \"{job}\" not found in namespace \"{namespace}\"", kind.name());
    Err(Problem::new(StatusCode::NOT_FOUND, "NotFound", message))
}

fn destination(service: &Service, request: &PutNotificationRuleRequest) -> Result<Destination, Problem> {
    match (request.url.as_str(), request.email.as_str()) {
        (url, "") if !url.is_empty() => Ok(Destination::Webhook { url: url.to_owned() }),
        ("", email) if !email.is_empty() => match service.keep.notifications.mail {
            Some(_) => Ok(Destination::Email { to: email.to_owned() }),
            None => {
                let fix = "send a webhook, or ask an administrator to configure an SMTP server";
                Err(Problem::invalid("email", "cannot be reached: the service has no SMTP server", fix))
            }
        },
        _ => Err(Problem::invalid("url", "and email: exactly one is needed", "send one of them")),
    }
}

fn key(text: &str) -> Result<Secret, Problem> {
    let wrong = || {
        let fix =
            format!("send {KEY} and the Base64 of {} to {} bytes", Secret::MIN_BYTES, Secret::MAX_BYTES);
        Problem::invalid("secret", "is not a key", fix)
    };
    let bytes = STANDARD.decode(text.strip_prefix(KEY).unwrap_or(text)).map_err(|_| wrong())?;
    Secret::new(bytes).map_err(|_| wrong())
}

/// Deletes a rule.
pub async fn delete_notification_rule(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: DeleteNotificationRuleRequest,
) -> Result<DeleteNotificationRuleResponse, Problem> {
    let DeleteNotificationRuleRequest { namespace, name } = &request;
    operation::about(RESOURCE, name, None);
    let store = &service.kept.opened()?.store;
    match notifications::delete_rule(store, namespace, &id(namespace, name)).await? {
        true => Ok(DeleteNotificationRuleResponse { deleted: true }),
        false => Err(no_rule(namespace, name)),
    }
}

/// Sends a test delivery.
pub async fn test_notification_rule(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: TestNotificationRuleRequest,
) -> Result<Delivery, Problem> {
    let TestNotificationRuleRequest { namespace, name } = &request;
    operation::about(RESOURCE, name, None);
    let store = &service.kept.opened()?.store;
    let delivery = notifications::enqueue_test(store, namespace, &id(namespace, name)).await?;
    delivery.map(delivered).ok_or_else(|| no_rule(namespace, name))
}

/// Lists deliveries.
pub async fn list_deliveries(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: ListDeliveriesRequest,
) -> Result<ListDeliveriesResponse, Problem> {
    let ListDeliveriesRequest { namespace, state, limit, r#continue: after } = &request;
    if !["", "pending", "delivered", "dead"].contains(&state.as_str()) {
        return Err(Problem::invalid("state", "is not a state", "use pending, delivered or dead"));
    }
    let limit = page(*limit, PAGE, notifications::MAX_PAGE)?;
    let after: Option<Cursor> = match after.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| not_a_page())?),
    };
    let store = &service.kept.opened()?.store;
    let state = Some(state.as_str()).filter(|state| !state.is_empty());
    let found = notifications::deliveries(store, namespace, state, after.as_ref(), limit).await?;
    let next = found.last().filter(|_| found.len() == limit as usize);
    let next = next.map(|last| last.cursor().to_string()).unwrap_or_default();
    Ok(ListDeliveriesResponse { deliveries: found.into_iter().map(delivered).collect(), r#continue: next })
}

fn delivered(delivery: notifications::Delivery) -> Delivery {
    let notifications::Delivery { id, rule, uid, created, state, tries, status, error } = delivery;
    Delivery {
        id,
        rule: name_of(&rule),
        job_uid: uid,
        created: time(Some(created)),
        state,
        tries: count(tries),
        status: status.map(count),
        error: error.unwrap_or_default(),
    }
}

/// The kind and name of a job that is or was there; `None` if the service no longer knows it.
async fn job_of(service: &Service, uid: &str) -> Result<Option<(String, String)>, Problem> {
    let (_, found) = service.board.snapshot(|entry| entry.row.uid == uid);
    if let Some(entry) = found.first() {
        return Ok(Some((entry.row.kind.clone(), entry.row.name.clone())));
    }
    let job = history::jobs::job(&service.kept.opened()?.store, uid).await?;
    Ok(job.map(|job| (job.kind, job.name)))
}

async fn shown(service: &Service, rule: Rule, with_key: bool) -> Result<NotificationRule, Problem> {
    let Rule { id, namespace, job, owner, created, enabled, transitions, destination, secret } = rule;
    let (url, email) = match destination {
        Destination::Webhook { url } => (url, String::new()),
        Destination::Email { to } => (String::new(), to),
    };
    let key = with_key.then(|| format!("{KEY}{}", STANDARD.encode(secret.bytes())));
    let about = match &job {
        Some(uid) => job_of(service, uid).await?,
        None => None,
    };
    let (kind, job_name) = about.unwrap_or_default();
    Ok(NotificationRule {
        kind,
        job: job_name,
        namespace,
        name: name_of(&id),
        owner,
        created: time(Some(created)),
        enabled,
        job_uid: job.unwrap_or_default(),
        phases: transitions.phases,
        reasons: transitions.reasons,
        causes: transitions.causes,
        url,
        email,
        secret: key.unwrap_or_default(),
    })
}
