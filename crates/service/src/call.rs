//! The steps of every call, whichever protocol it came over: who calls and how often, by the headers alone ([`admit`]);
//! then the message is read, then whether the caller may, then the method. Streams go through the same steps again while
//! they run.

use std::future::Future;
use std::sync::Arc;

use connections::{Share, share_of};
use futures::stream::{BoxStream, Stream, StreamExt};
use http::{HeaderMap, StatusCode, header};
use jobs::{Attempt, Error, Kind};
use kube::ResourceExt as _;
use semantics::is_subdomain;
use tokio::time::{Instant, Interval};

use crate::access::Right;
use crate::audit::{self, About};
use crate::contract::{Addressed, Method};
use crate::filter;
use crate::identity::Caller;
use crate::interval::every;
use crate::limits::Place;
use crate::metrics::Open;
use crate::operation;
use crate::problem::Problem;
use crate::service::Service;

/// A request whose message may be read.
#[derive(Clone)]
pub struct Admitted {
    /// Who sends it.
    pub caller: Arc<Caller>,
    /// The caller's memory for the message, until the call is answered.
    pub share: Arc<Share>,
    #[expect(dead_code, reason = "holds the memory for the response until the call is answered")]
    answer: Arc<Share>,
    /// The states of its target that the request is for.
    if_match: Option<String>,
    begun: Instant,
}

/// Finds out by a request's headers who calls, and counts the request.
///
/// # Errors
/// 401 for strangers, 429 for those who call too often or do not read the responses, 503 and 504 if the cluster does not answer.
pub async fn admit(
    service: &Service,
    method: &'static Method,
    headers: &HeaderMap,
) -> Result<Admitted, Problem> {
    let begun = Instant::now();
    let admitted = patiently(service, async {
        let caller = service.identity.of(headers).await?;
        service.limits.request(&caller.user)?;
        let answer = service.answers.reserve(&caller.user)?;
        let share = Arc::new(service.memory.share(share_of(&caller.user)));
        let if_match =
            headers.get(header::IF_MATCH).map(|value| value.to_str().unwrap_or_default().to_owned());
        Ok(Admitted { caller, share, answer, if_match, begun })
    })
    .await;
    count_refusal(service, method, begun, &admitted);
    admitted
}

/// Reads a request's message, and counts one that cannot be read.
///
/// # Errors
/// Those of the reading.
pub async fn read<Q>(
    service: &Service,
    method: &'static Method,
    admitted: &Admitted,
    message: impl Future<Output = Result<Q, Problem>>,
) -> Result<Q, Problem> {
    let message = message.await;
    count_refusal(service, method, admitted.begun, &message);
    message
}

fn count_refusal<T>(service: &Service, method: &Method, begun: Instant, outcome: &Result<T, Problem>) {
    if let Err(problem) = outcome {
        service.metrics.called(method.name, problem.status.as_u16(), begun.elapsed());
    }
}

/// Runs a method that answers once.
///
/// # Errors
/// What the steps before the method refuse, or the method's own problem.
pub async fn unary<Q, A, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    admitted: Admitted,
    request: Q,
    run: F,
) -> Result<A, Problem>
where
    Q: Addressed,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<A, Problem>>,
{
    measured(service, method, admitted.begun, async {
        let caller = &admitted.caller;
        let address = Address::of(&request)?;
        // On the heap: the futures of some methods are large, and each step around them would hold a copy.
        allowed(service, caller, method, &address).await?;
        let work = Box::pin(async {
            if let Some(wanted) = admitted.if_match.as_ref().filter(|_| method.verb != "GET") {
                Box::pin(precondition(caller, method, &address, wanted)).await?;
            }
            run(service.clone(), caller.clone(), request).await
        });
        patiently(service, recorded(service, method, caller, &address, work)).await
    })
    .await
}

/// Checks the condition of a request to change one job: that the job is in a state that the client has seen (RFC 9110,
/// 13.1.1). Nothing but jobs has tags. A job that is not there is the method's to report.
async fn precondition(
    caller: &Caller,
    method: &Method,
    address: &Address,
    wanted: &str,
) -> Result<(), Problem> {
    let failed = |message: String| {
        Problem::new(StatusCode::PRECONDITION_FAILED, "Conflict", message)
            .because("PreconditionFailed")
            .hint("read the job again, and decide with its new ETag")
    };
    if wanted.trim() == "*" {
        return Ok(());
    }
    let &[kind] = address.kinds.as_slice() else {
        return Err(failed("If-Match is for requests about one job".to_owned()));
    };
    if method.access_resource != "jobs" || address.name.is_empty() {
        return Err(failed("If-Match is for requests about one job".to_owned()));
    }
    let found = kind.api(&caller.client, &address.namespace).get_metadata_opt(&address.name).await;
    let attempt =
        Attempt { verb: "get", what: kind.names(), name: &address.name, namespace: &address.namespace };
    let found = found.map_err(|error| Error::from_kube(error, attempt))?;
    let Some(found) = found else { return Ok(()) };
    let tag = operation::tag(&found.resource_version().unwrap_or_default());
    if wanted.split(',').any(|wanted| wanted.trim() == tag) {
        return Ok(());
    }
    Err(failed(format!("{} \"{}\" has changed: its ETag is {tag}", kind.name(), address.name)))
}

/// Runs a method that answers with a stream.
///
/// # Errors
/// As [`unary`]; afterwards, problems are items of the stream, and each is its last.
pub async fn stream<Q, A, S, F, R>(
    service: &Arc<Service>,
    method: &'static Method,
    admitted: Admitted,
    request: Q,
    run: F,
) -> Result<BoxStream<'static, Result<A, Problem>>, Problem>
where
    Q: Addressed,
    A: Send + 'static,
    S: Stream<Item = Result<A, Problem>> + Send + 'static,
    F: FnOnce(Arc<Service>, Arc<Caller>, Q) -> R,
    R: Future<Output = Result<S, Problem>>,
{
    measured(service, method, admitted.begun, async {
        let place = service.limits.stream(&admitted.caller.user)?;
        let caller = &admitted.caller;
        let address = Address::of(&request)?;
        // On the heap: the futures of some methods are large, and each step around them would hold a copy.
        allowed(service, caller, method, &address).await?;
        let work = Box::pin(run(service.clone(), caller.clone(), request));
        let items = patiently(service, recorded(service, method, caller, &address, work)).await?.boxed();
        let guard = Guard {
            recheck: every(service.settings.recheck),
            open: service.metrics.stream(method.name),
            service: service.clone(),
            caller: caller.clone(),
            method,
            address,
            place,
        };
        Ok(guarded(items, guard).boxed())
    })
    .await
}

/// Checks the permission that the contract declares for the method. The audit log has who was refused.
async fn allowed(
    service: &Arc<Service>,
    caller: &Caller,
    method: &'static Method,
    address: &Address,
) -> Result<(), Problem> {
    let checked = patiently(service, permitted(service, caller, method, address)).await;
    if let Err(problem) = &checked
        && problem.status == StatusCode::FORBIDDEN
        && audit::is_recorded(method, service.keep.audit_reads, address.is_dry_run)
    {
        audit::refused(&service.kept, &service.refusals, method, caller, address.about(method), problem)
            .await;
    }
    checked
}

/// Does the work of a call, and records it in the audit log if the log has calls of this method.
async fn recorded<A>(
    service: &Service,
    method: &'static Method,
    caller: &Caller,
    address: &Address,
    work: impl Future<Output = Result<A, Problem>>,
) -> Result<A, Problem> {
    match audit::is_recorded(method, service.keep.audit_reads, address.is_dry_run) {
        true => audit::recorded(&service.kept, method, caller, address.about(method), work).await,
        false => work.await,
    }
}

async fn measured<T>(
    service: &Service,
    method: &'static Method,
    begun: Instant,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let outcome = work.await;
    let status = outcome.as_ref().err().map_or(StatusCode::OK, |problem| problem.status);
    service.metrics.called(method.name, status.as_u16(), begun.elapsed());
    outcome
}

/// Waits for the cluster as long as a call may.
async fn patiently<T>(
    service: &Service,
    work: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let patience = service.settings.patience;
    tokio::time::timeout(patience, work).await.unwrap_or_else(|_| {
        let message = format!("the cluster did not answer within {} s", patience.as_secs());
        Err(Problem { status: StatusCode::GATEWAY_TIMEOUT, ..Problem::unavailable(message) })
    })
}

/// What a request is about.
struct Address {
    namespace: String,
    kinds: Vec<Kind>,
    name: String,
    is_dry_run: bool,
}

impl Address {
    /// Reads it. Names become parts of paths of requests to the cluster, so only proper ones pass.
    fn of(request: &impl Addressed) -> Result<Self, Problem> {
        let namespace = request.namespace();
        if !namespace.is_empty() {
            proper("namespace", namespace)?;
        }
        if let Some(name) = request.name() {
            proper("name", name)?;
        }
        let kinds: Result<Vec<Kind>, Problem> = request.kinds().into_iter().map(filter::kind).collect();
        let name = request.name().unwrap_or_default().to_owned();
        let is_dry_run = request.is_dry_run();
        Ok(Self { namespace: namespace.to_owned(), kinds: kinds?, name, is_dry_run })
    }

    /// What the audit log records of it.
    fn about(&self, method: &Method) -> About {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.plural()).collect();
        let resource = if method.access_resource == "jobs" {
            kinds.join(",")
        } else {
            method.access_resource.to_owned()
        };
        About { resource, namespace: some(&self.namespace), name: some(&self.name) }
    }
}

/// Checks a name as Kubernetes does (RFC 1123 subdomain).
pub fn proper(field: &str, name: &str) -> Result<(), Problem> {
    if is_subdomain(name) {
        return Ok(());
    }
    let fault = format!("\"{}\" is not a name", name.chars().take(40).collect::<String>().escape_debug());
    Err(Problem::invalid(field, fault, "use lower-case letters, digits and -, at most 253"))
}

/// Checks the permission that the contract declares for the method.
async fn permitted(
    service: &Service,
    caller: &Caller,
    method: &Method,
    address: &Address,
) -> Result<(), Problem> {
    if method.access_verb.is_empty() {
        return Ok(());
    }
    if method.access_resource.starts_with('/') {
        let right = Right::on_path(method.access_verb, method.access_resource);
        return service.access.require(caller, right, method.access_resource).await;
    }
    if address.namespace.is_empty() {
        return Err(Problem::invalid("namespace", "is missing", "name the namespace"));
    }
    if method.access_resource != "jobs" {
        let right = Right::on(method.access_verb, method.access_resource, &address.namespace);
        return service.access.require(caller, right, method.access_resource).await;
    }
    if !method.fields.iter().any(|field| field.name == "kind") {
        return any_kind(service, caller, method.access_verb, &address.namespace).await;
    }
    for kind in &address.kinds {
        let right = Right::on_jobs(method.access_verb, *kind, &address.namespace);
        service.access.require(caller, right, kind.names()).await?;
    }
    Ok(())
}

/// Refuses a caller who may do this with no kind of jobs. The method checks the kinds: the request does not name them.
async fn any_kind(
    service: &Service,
    caller: &Caller,
    verb: &'static str,
    namespace: &str,
) -> Result<(), Problem> {
    for kind in Kind::ALL {
        if service.access.may(caller, Right::on_jobs(verb, kind, namespace)).await? {
            return Ok(());
        }
    }
    Err(Problem::forbidden(&caller.user, verb, Kind::default().names(), namespace))
}

/// What is checked while a stream runs.
struct Guard {
    service: Arc<Service>,
    caller: Arc<Caller>,
    method: &'static Method,
    address: Address,
    recheck: Interval,
    #[expect(dead_code, reason = "counts the stream until it is dropped")]
    open: Open,
    #[expect(dead_code, reason = "holds the user's place until it is dropped")]
    place: Place,
}

impl Guard {
    async fn check(&self) -> Result<(), Problem> {
        let caller = self.service.identity.again(&self.caller).await?;
        permitted(&self.service, &caller, self.method, &self.address).await
    }
}

/// Passes items on while the caller's token and permissions hold and the service runs.
fn guarded<A: Send + 'static>(
    items: BoxStream<'static, Result<A, Problem>>,
    guard: Guard,
) -> impl Stream<Item = Result<A, Problem>> {
    futures::stream::unfold(Some((items, guard)), |state| async move {
        let (mut items, mut guard) = state?;
        let stop = guard.service.stop.clone();
        loop {
            tokio::select! {
                // A client that has not read for a while gets nothing before it is checked.
                biased;
                () = stop.cancelled() => {
                    return Some((Err(Problem::unavailable("the service stops; connect again")), None));
                }
                _ = guard.recheck.tick() => match guard.check().await {
                    // The cluster may be away for a moment; the last decision holds until it is back.
                    Err(problem) if problem.status != StatusCode::SERVICE_UNAVAILABLE => {
                        return Some((Err(problem), None));
                    }
                    _ => {}
                },
                item = items.next() => return match item? {
                    Ok(item) => Some((Ok(item), Some((items, guard)))),
                    Err(problem) => Some((Err(problem), None)),
                },
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_leave_their_path_are_refused() {
        for name in ["a", "team-cv", "a.b", "x1"] {
            assert!(proper("name", name).is_ok(), "{name}");
        }
        for name in ["", "..", "a/b", "a..b", "A", "-a", "a?x", "a%2fb", "a#", "ä", "a.-b", &"a".repeat(254)]
        {
            assert!(proper("name", name).is_err(), "{name}");
        }
    }
}
