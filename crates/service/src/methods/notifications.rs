//! Rules about who is notified of what, and the deliveries.

use std::net::IpAddr;
use std::sync::Arc;

use api::Phase;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use diagnosis::Cause;
use history::notifications::address::Policy;
use history::notifications::alerts::{Condition, QUOTA, span};
use history::notifications::{
    self, DeliveryFilter, Destination, NewRule, Rule, Secret, Tested, Transitions, VisibleDeliveries,
};
use history::store::Cursor;
use http::{StatusCode, Uri};
use jobs::Kind;

use super::history::{not_a_page, page};
use crate::access::Right;
use crate::call::proper;
use crate::conditions::run_time;
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
/// How many letters at the end of a masked URL are shown.
const SHOWN_LETTERS: usize = 4;
/// What the audit log calls rules.
const RESOURCE: &str = "notifications";

/// The store's id of a rule: a name is unique within its namespace, which has no slash.
fn id(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// The name of a rule with this id.
pub(super) fn name_of(id: &str) -> String {
    id.split_once('/').map_or(id, |(_, name)| name).to_owned()
}

fn no_rule(namespace: &str, name: &str) -> Problem {
    let message = format!("there is no notification rule \"{name}\" in namespace \"{namespace}\"");
    Problem::new(StatusCode::NOT_FOUND, "NotFound", message)
}

/// Lists rules.
pub async fn list_notification_rules(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListNotificationRulesRequest,
) -> Result<ListNotificationRulesResponse, Problem> {
    let kinds = allowed(&service, &caller, "list", &Kind::ALL, &request.namespace).await?;
    let mut rules = Vec::new();
    for rule in notifications::rules(&service.kept.opened()?.store, &request.namespace).await? {
        if is_about_some(&rule, &kinds) {
            let url = url_for(&service, &caller, &rule).await?;
            rules.push(shown(&service, rule, url, false).await?);
        }
    }
    Ok(ListNotificationRulesResponse { rules })
}

/// Gets a rule.
pub async fn get_notification_rule(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetNotificationRuleRequest,
) -> Result<NotificationRule, Problem> {
    let GetNotificationRuleRequest { namespace, name } = &request;
    let rule = known(&service, namespace, name).await?.ok_or_else(|| no_rule(namespace, name))?;
    let about = kinds_of(&rule);
    if allowed(&service, &caller, "get", &about, namespace).await?.is_empty() {
        let kind = about.first().copied().unwrap_or_default();
        return Err(Problem::forbidden(&caller.user, "get", kind.names(), namespace));
    }
    let url = url_for(&service, &caller, &rule).await?;
    shown(&service, rule, url, false).await
}

/// Returns a rule, if it is there.
async fn known(service: &Service, namespace: &str, name: &str) -> Result<Option<Rule>, Problem> {
    let store = &service.kept.opened()?.store;
    Ok(notifications::rule(store, namespace, &id(namespace, name)).await?)
}

/// Creates or replaces a rule.
pub async fn put_notification_rule(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: PutNotificationRuleRequest,
) -> Result<NotificationRule, Problem> {
    let PutNotificationRuleRequest { namespace, name, job, secret, disabled, .. } = &request;
    operation::about(RESOURCE, name, None);
    service.tenants.require_known()?;
    if let Some(rule) = known(&service, namespace, name).await? {
        require_change(&service, &caller, &rule).await?;
    }
    let transitions = transitions(&request)?;
    let condition = condition(&request)?;
    if condition.is_some_and(Condition::is_of_quotas) {
        let right = Right::on("list", "resourcequotas", namespace);
        service.access.require(&caller, right, "resourcequotas").await?;
    }
    let rule = NewRule {
        id: id(namespace, name),
        namespace: namespace.clone(),
        job: if job.is_empty() { None } else { Some(uid_of(&service, &request).await?) },
        owner: caller.user.clone(),
        subject: serde_json::to_string(&caller.subject()).unwrap_or_default(),
        kinds: kinds(&service, &caller, &request).await?,
        enabled: !disabled,
        transitions,
        condition,
        destination: destination(&service, &request)?,
        secret: if secret.is_empty() { None } else { Some(key(secret)?) },
    };
    let store = &service.kept.opened()?.store;
    let put = notifications::put_rule(store, rule, &service.keep.notifications.policy).await;
    let (rule, is_new_key) = put.map_err(|error| match error {
        history::Error::Invalid(fault) => {
            let field = if request.url.is_empty() { "email" } else { "url" };
            Problem::invalid(field, fault, fix(&request.url, &service.keep.notifications.policy))
        }
        other => other.into(),
    })?;
    service.conditions.wake();
    shown(&service, rule, Url::Whole, is_new_key && secret.is_empty()).await
}

/// What to do about a destination that is refused.
fn fix(url: &str, policy: &Policy) -> String {
    let general = "name a destination that everybody may reach";
    let uri = url.parse::<Uri>().unwrap_or_default();
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_loopback = host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    if is_loopback || (uri.scheme_str() == Some("http") && !policy.allow_http) {
        let local = "a local cluster that was started with --local-webhooks permits this machine's addresses";
        return format!("{general}; {local}");
    }
    general.to_owned()
}

/// The transitions that a rule is about. A word that no transition has is refused: the rule would never fire.
fn transitions(request: &PutNotificationRuleRequest) -> Result<Transitions, Problem> {
    let PutNotificationRuleRequest { phases, reasons, causes, .. } = request;
    for (field, words) in [("phases", phases), ("reasons", reasons), ("causes", causes)] {
        if words.len() > MOST_WORDS || words.iter().any(|word| word.len() > LONGEST_WORD) {
            let fault = format!("has more than {MOST_WORDS} words, or one of more than {LONGEST_WORD} bytes");
            return Err(Problem::invalid(field, fault, "leave some out, or the whole list for all"));
        }
    }
    let known_phases =
        [Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed].map(jobs::view::phase_name);
    let known_causes: Vec<&'static str> = Cause::ALL.iter().map(|cause| cause.word()).collect();
    Ok(Transitions {
        phases: known_words("phases", phases, &known_phases)?,
        reasons: reasons.clone(),
        causes: known_words("causes", causes, &known_causes)?,
    })
}

/// Returns the words as they are written in transitions; refuses one that is not known.
fn known_words(field: &str, words: &[String], known: &[&'static str]) -> Result<Vec<String>, Problem> {
    let as_known = |word: &String| {
        let found = known.iter().find(|other| other.eq_ignore_ascii_case(word.trim()));
        found.map(|found| (*found).to_owned()).ok_or_else(|| unknown_word(field, word, known))
    };
    words.iter().map(as_known).collect()
}

fn unknown_word(field: &str, word: &str, known: &[&'static str]) -> Problem {
    let shown: String = word.chars().take(40).collect();
    let is_state = field == "phases" && jobs::pick::is_state(word, &[]);
    let fault = match is_state {
        true => format!("\"{}\" is a reason or a cause, not a phase", shown.escape_debug()),
        false => format!("\"{}\" is not one of the known {field}", shown.escape_debug()),
    };
    let known_list = format!("known {field}: {}", known.join(", "));
    let fix = match jobs::manifest::nearest(word, known) {
        _ if is_state => format!("send it in reasons or causes; {known_list}"),
        Some(meant) => format!("did you mean {meant}? {known_list}"),
        None => known_list,
    };
    Problem::invalid(field, fault, fix)
}

/// The condition of a rule, if it has one in place of transitions.
fn condition(request: &PutNotificationRuleRequest) -> Result<Option<Condition>, Problem> {
    let PutNotificationRuleRequest { job, phases, reasons, causes, quota_percent, runs_longer_than, .. } =
        request;
    let percent = match quota_percent.map(u32::try_from) {
        None => None,
        Some(Ok(percent @ 1..=100)) => Some(Condition::QuotaUsed { percent }),
        Some(_) => return Err(Problem::invalid("quotaPercent", "is not from 1 to 100", "send 90 for 90%")),
    };
    let longer = match runs_longer_than.as_str() {
        "" => None,
        text => {
            let wrong =
                || Problem::invalid("runsLongerThan", "is not a time from 10s to 365d", "send 24h for a day");
            Some(Condition::RunsLonger { seconds: run_time(text).ok_or_else(wrong)? })
        }
    };
    let stalled = request.stalled.then_some(Condition::Stalled);
    let given: Vec<(&str, Condition)> =
        [("quotaPercent", percent), ("runsLongerThan", longer), ("stalled", stalled)]
            .into_iter()
            .filter_map(|(field, condition)| Some((field, condition?)))
            .collect();
    let Some(&(field, condition)) = given.first() else { return Ok(None) };
    if given.len() > 1 {
        let fault = "is one of several conditions, and a rule has at most one";
        return Err(Problem::invalid(field, fault, "make a rule for each"));
    }
    let transitions = [("phases", phases), ("reasons", reasons), ("causes", causes)];
    if let Some((other, _)) = transitions.into_iter().find(|(_, words)| !words.is_empty()) {
        let fault =
            format!("cannot be combined with {field}: a rule is about changes of jobs or has a condition");
        return Err(Problem::invalid(other, fault, "leave one of both out, or make two rules"));
    }
    if condition.is_of_quotas() && !job.is_empty() {
        let fault = "cannot be combined with quotaPercent: quotas are of the whole namespace";
        return Err(Problem::invalid("job", fault, "leave it out"));
    }
    Ok(Some(condition))
}

/// The kinds of jobs that a rule is about: that of its only job, or those that the caller may list.
async fn kinds(
    service: &Service,
    caller: &Caller,
    request: &PutNotificationRuleRequest,
) -> Result<Vec<String>, Problem> {
    let PutNotificationRuleRequest { namespace, job, .. } = request;
    let meant = kind(&request.kind)?;
    let asked = if job.is_empty() { Kind::ALL.to_vec() } else { vec![meant] };
    let kinds = allowed(service, caller, "list", &asked, namespace).await?;
    if kinds.is_empty() {
        return Err(Problem::forbidden(&caller.user, "list", meant.names(), namespace));
    }
    Ok(kinds.into_iter().map(|kind| kind.name().to_owned()).collect())
}

/// Returns those of some kinds of jobs on which the caller has a right.
async fn allowed(
    service: &Service,
    caller: &Caller,
    verb: &'static str,
    kinds: &[Kind],
    namespace: &str,
) -> Result<Vec<Kind>, Problem> {
    let rights = kinds.iter().map(|kind| Right::on_jobs(verb, *kind, namespace)).collect();
    let allowed = service.access.among(caller, rights).await?;
    let may = |kind: &Kind| allowed.iter().any(|right| right.resource == kind.plural());
    Ok(kinds.iter().copied().filter(may).collect())
}

/// The kinds of jobs that a rule is about.
fn kinds_of(rule: &Rule) -> Vec<Kind> {
    match rule.kinds.is_empty() {
        true => Kind::ALL.to_vec(),
        false => rule.kinds.iter().filter_map(|kind| Kind::named(kind)).collect(),
    }
}

fn is_about_some(rule: &Rule, kinds: &[Kind]) -> bool {
    kinds_of(rule).iter().any(|kind| kinds.contains(kind))
}

/// Returns a kind of jobs without whose right the caller may not change a rule. Its owner may; others need `patch` on
/// all kinds that it is about.
async fn lacking(service: &Service, caller: &Caller, rule: &Rule) -> Result<Option<Kind>, Problem> {
    if rule.owner == caller.user {
        return Ok(None);
    }
    let about = kinds_of(rule);
    let may = allowed(service, caller, "patch", &about, &rule.namespace).await?;
    Ok(about.into_iter().find(|kind| !may.contains(kind)))
}

/// Refuses a caller who may not change a rule.
async fn require_change(service: &Service, caller: &Caller, rule: &Rule) -> Result<(), Problem> {
    match lacking(service, caller, rule).await? {
        Some(kind) => Err(Problem::forbidden(&caller.user, "patch", kind.names(), &rule.namespace)),
        None => Ok(()),
    }
}

/// How the URL of a webhook is shown. Who knows it can often send to it as well.
#[derive(Clone, Copy)]
enum Url {
    Whole,
    Masked,
}

/// Returns how the caller sees the URL of a rule: those who may change the rule see it.
async fn url_for(service: &Service, caller: &Caller, rule: &Rule) -> Result<Url, Problem> {
    Ok(if lacking(service, caller, rule).await?.is_none() { Url::Whole } else { Url::Masked })
}

/// Masks a URL: its origin and its last letters are enough to tell one from another.
fn masked(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let scheme = url.get(..url.len() - rest.len()).unwrap_or_default();
    let secret: Vec<char> = rest.get(host.len()..).unwrap_or_default().chars().collect();
    // Of a short one, the last letters would be most of it.
    let shown = if secret.len() >= 4 * SHOWN_LETTERS { SHOWN_LETTERS } else { 0 };
    let end: String = secret.iter().skip(secret.len() - shown).collect();
    format!("{scheme}{host}/…{end}")
}

/// The UID of the only job that a rule is about. A rule that is written again may be about a job that was deleted since.
async fn uid_of(service: &Service, request: &PutNotificationRuleRequest) -> Result<String, Problem> {
    let PutNotificationRuleRequest { namespace, name, job, .. } = request;
    proper("job", job)?;
    let kind = kind(&request.kind)?;
    if let Some(entry) = service.board.get(&(kind, namespace.clone(), job.clone())) {
        return Ok(entry.row.uid.clone());
    }
    if let Some(uid) = known(service, namespace, name).await?.and_then(|rule| rule.job)
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

/// Deletes a rule. Administrators of the namespace may delete every rule.
pub async fn delete_notification_rule(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: DeleteNotificationRuleRequest,
) -> Result<DeleteNotificationRuleResponse, Problem> {
    let DeleteNotificationRuleRequest { namespace, name } = &request;
    operation::about(RESOURCE, name, None);
    let rule = known(&service, namespace, name).await?.ok_or_else(|| no_rule(namespace, name))?;
    if !service.access.may(&caller, Right::to_administer(namespace)).await? {
        require_change(&service, &caller, &rule).await?;
    }
    let store = &service.kept.opened()?.store;
    match notifications::delete_rule(store, namespace, &id(namespace, name)).await? {
        true => Ok(DeleteNotificationRuleResponse { deleted: true }),
        false => Err(no_rule(namespace, name)),
    }
}

/// Sends a test delivery.
pub async fn test_notification_rule(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: TestNotificationRuleRequest,
) -> Result<Delivery, Problem> {
    let TestNotificationRuleRequest { namespace, name } = &request;
    operation::about(RESOURCE, name, None);
    let rule = known(&service, namespace, name).await?.ok_or_else(|| no_rule(namespace, name))?;
    require_change(&service, &caller, &rule).await?;
    let store = &service.kept.opened()?.store;
    match notifications::enqueue_test(store, namespace, &id(namespace, name)).await? {
        Tested::Enqueued(delivery) => Ok(delivered(delivery)),
        Tested::NoRule => Err(no_rule(namespace, name)),
        Tested::TooSoon => {
            let message = "the rule, or too many others of the namespace, were tested within the last minute";
            let mut problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
                .hint("wait a minute; the deliveries show what became of the last test");
            problem.retry_after_seconds = u32::try_from(notifications::TEST_EVERY.as_secs()).unwrap_or(60);
            Err(problem)
        }
    }
}

/// Lists deliveries.
pub async fn list_deliveries(
    service: Arc<Service>,
    caller: Arc<Caller>,
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
    let filter = DeliveryFilter {
        state: Some(state.clone()).filter(|state| !state.is_empty()),
        visible: Some(visible(&service, &caller, namespace).await?),
    };
    let found = notifications::deliveries(store, namespace, &filter, after.as_ref(), limit).await?;
    let next = found.last().filter(|_| found.len() == limit as usize);
    let next = next.map(|last| last.cursor().to_string()).unwrap_or_default();
    Ok(ListDeliveriesResponse { deliveries: found.into_iter().map(delivered).collect(), r#continue: next })
}

/// Returns which deliveries of a namespace the caller may see: those about jobs of the kinds that it may list, those
/// about quotas if it may list quotas, and tests of the rules that it may see.
async fn visible(service: &Service, caller: &Caller, namespace: &str) -> Result<VisibleDeliveries, Problem> {
    let listed = allowed(service, caller, "list", &Kind::ALL, namespace).await?;
    let rules = notifications::rules(&service.kept.opened()?.store, namespace).await?;
    let seen = rules.into_iter().filter(|rule| is_about_some(rule, &listed));
    let tests_of = seen.map(|rule| rule.id).collect();
    let mut kinds: Vec<String> = listed.iter().map(|kind| kind.name().to_owned()).collect();
    if service.access.may(caller, Right::on("list", "resourcequotas", namespace)).await? {
        kinds.push(QUOTA.to_owned());
    }
    Ok(VisibleDeliveries { kinds, tests_of })
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

async fn shown(service: &Service, rule: Rule, url: Url, with_key: bool) -> Result<NotificationRule, Problem> {
    let Rule {
        id,
        namespace,
        job,
        owner,
        subject: _,
        kinds,
        created,
        enabled,
        disabled_because,
        transitions,
        condition,
        destination,
        secret,
    } = rule;
    let (url, email) = match (destination, url) {
        (Destination::Webhook { url }, Url::Whole) => (url, String::new()),
        (Destination::Webhook { url }, Url::Masked) => (masked(&url), String::new()),
        (Destination::Email { to }, _) => (String::new(), to),
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
        kinds,
        disabled_because: disabled_because.unwrap_or_default(),
        quota_percent: match condition {
            Some(Condition::QuotaUsed { percent }) => Some(count(percent)),
            _ => None,
        },
        runs_longer_than: match condition {
            Some(Condition::RunsLonger { seconds }) => span(seconds),
            _ => String::new(),
        },
        stalled: condition == Some(Condition::Stalled),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_receiver_on_this_machine_is_told_how_a_local_cluster_permits_it() {
        let is_told = |url: &str, policy: &Policy| fix(url, policy).contains("started with --local-webhooks");
        let strict = Policy::default();
        for url in ["http://127.0.0.1:9/", "http://localhost/", "https://127.0.0.1/", "https://[::1]:9/"] {
            assert!(is_told(url, &strict), "{url}");
        }
        for url in ["https://10.0.0.1/", "ftp://example.com/", "no URL", ""] {
            assert!(!is_told(url, &strict), "{url}");
        }
        let local = Policy { allow_http: true, ..Policy::default() };
        assert!(!is_told("http://10.0.0.1/", &local), "http is permitted, the address is not");
    }

    #[test]
    fn a_word_that_no_transition_has_is_refused_with_what_was_meant() {
        let rule = |phases: &[&str], causes: &[&str]| {
            let owned =
                |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
            let (phases, causes) = (owned(phases), owned(causes));
            transitions(&PutNotificationRuleRequest { phases, causes, ..Default::default() })
        };
        let kept = rule(&["failed", "Running"], &["outofmemory"]).unwrap();
        assert_eq!(kept.phases, ["Failed", "Running"]);
        assert_eq!(kept.causes, ["OutOfMemory"]);
        for (refused, words, hint) in [
            (rule(&["Fail"], &[]), "phases: \"Fail\"", "did you mean Failed?"),
            (rule(&["Suspended"], &[]), "a reason or a cause, not a phase", "reasons"),
            (rule(&["Cancelled"], &[]), "a reason or a cause, not a phase", "known phases: Pending"),
            (rule(&["OutOfMemory"], &[]), "a reason or a cause, not a phase", "causes"),
            (rule(&["x"], &[]), "phases", "Pending, Running, Succeeded, Failed"),
            (rule(&[], &["OutOfMemry"]), "causes: \"OutOfMemry\"", "did you mean OutOfMemory?"),
        ] {
            let problem = refused.unwrap_err();
            assert_eq!(problem.status, StatusCode::UNPROCESSABLE_ENTITY);
            assert!(problem.message.contains(words) && problem.hint.contains(hint), "{problem:?}");
        }
    }

    #[test]
    fn a_masked_url_tells_where_it_goes_and_not_the_secret_in_it() {
        for (url, shown) in [
            ("https://hooks.slack.com/services/T0/B0/TOPSECRET-HOOK", "https://hooks.slack.com/…HOOK"),
            ("https://example.com/SECRET", "https://example.com/…"),
            ("https://example.com:8443?key=0123456789abcdef", "https://example.com:8443/…cdef"),
            ("https://example.com", "https://example.com/…"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
