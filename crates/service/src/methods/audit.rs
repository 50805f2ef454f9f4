//! Reads the audit log: for administrators only, who may `get` the path `/training/audit`. It is not the path of these
//! methods, because Kubernetes grants everything below `/api` to every account, for discovery.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use history::audit::{self, Channel, Filter, Line, MAX_OPERATIONS, Operation, Order, Stage};

use super::history::{not_a_page, page};
use crate::contract::{
    Admission, Answer, AuditLine, AuditRecord, AuditedOperation, ExportAuditRequest, ListAuditRequest,
    ListAuditResponse, RecordAdmissionsRequest, RecordAdmissionsResponse,
};
use crate::filter::moment;
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::time;
use crate::service::Service;

/// The size of a page if none is given.
const PAGE: u32 = 100;
/// The longest text, and the most groups, of a report of an admission that are recorded; the rest is cut off. The whole line
/// must not be larger than the log takes, however JSON writes it.
const LONGEST_TEXT: usize = 512;
const MOST_GROUPS: usize = 50;
const LONGEST_GROUPS: usize = 4096;
/// The verb of a report about others that were lost.
const LOST: &str = "lost";

/// Lists operations.
pub async fn list_audit(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: ListAuditRequest,
) -> Result<ListAuditResponse, Problem> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let filter = Filter {
        who: some(&request.who),
        namespace: some(&request.namespace),
        job: some(&request.object),
        since: moment("since", &request.since)?,
        until: moment("until", &request.until)?,
    };
    let limit = page(request.limit, PAGE, MAX_OPERATIONS)?;
    let after: Option<i64> = match request.r#continue.as_str() {
        "" => None,
        text => Some(text.parse().map_err(|_| not_a_page())?),
    };
    let order = if request.newest_first { Order::NewestFirst } else { Order::OldestFirst };
    let found = audit::operations(&service.kept.opened()?.store, &filter, order, after, limit).await?;
    let next = found.last().filter(|_| found.len() == limit as usize);
    let next = next.map(|last| last.first().to_string()).unwrap_or_default();
    Ok(ListAuditResponse { operations: found.into_iter().map(operation).collect(), r#continue: next })
}

fn operation(operation: Operation) -> AuditedOperation {
    AuditedOperation { request: operation.request, lines: operation.lines.into_iter().map(line).collect() }
}

fn line(line: Line) -> AuditLine {
    let Line { seq, hash, entry } = line;
    AuditLine {
        number: seq.to_string(),
        hash,
        at: time(Some(entry.at)),
        who: entry.who.name,
        verb: entry.verb,
        resource: entry.resource,
        namespace: entry.namespace.unwrap_or_default(),
        object: entry.job.unwrap_or_default(),
        address: entry.address.unwrap_or_default(),
        program: entry.program.unwrap_or_default(),
        stage: match entry.stage {
            Stage::RequestReceived => "RequestReceived",
            Stage::ResponseComplete => "ResponseComplete",
        }
        .to_owned(),
        status: entry.status.map(i32::from),
        reason: entry.reason.unwrap_or_default(),
        channel: match entry.channel {
            Channel::Service => "service",
            Channel::Webhook => "webhook",
        }
        .to_owned(),
    }
}

/// The methods that make a write with a verb of Kubernetes.
fn made_by(verb: &str) -> &'static [&'static str] {
    match verb {
        "create" => &["CreateJob", "RetryJob", "CloneJob"],
        "update" => &["SuspendJob", "ResumeJob", "CancelJob", "BatchJobs"],
        "delete" => &["DeleteJob", "BatchJobs"],
        _ => &[],
    }
}

/// Records what the admission webhook saw.
pub async fn record_admissions(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: RecordAdmissionsRequest,
) -> Result<RecordAdmissionsResponse, Problem> {
    record(&service, request.admissions).await.map(|pending| RecordAdmissionsResponse { pending })
}

/// Records what the admission webhook of this process saw; returns the reviews that must be reported again.
///
/// # Errors
/// 422 if one has no identity, verb or time, or there are too many; 503 if the log cannot be written. What is only too
/// long is cut: another component reports what happened, and cannot change it.
pub async fn record(service: &Service, admissions: Vec<Admission>) -> Result<Vec<String>, Problem> {
    let read: Result<Vec<audit::Admission>, Problem> =
        admissions.into_iter().enumerate().map(|(at, admission)| admitted(at, admission)).collect();
    let read = read?;
    let opened = service.kept.opened()?;
    let recorded = audit::admit(&opened.store, &read, made_by).await;
    service.kept.note(&recorded);
    let pending = read.into_iter().zip(recorded?).filter(|(_, recorded)| !recorded);
    Ok(pending.map(|(admission, _)| admission.review).collect())
}

fn admitted(place: usize, admission: Admission) -> Result<audit::Admission, Problem> {
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
    let path = |field: &str| format!("admissions[{place}].{field}");
    if review.is_empty() {
        return Err(Problem::invalid(&path("review"), "is missing", "send it as the review has it"));
    }
    if made_by(&verb).is_empty() && verb != LOST {
        return Err(Problem::invalid(&path("verb"), "is not a verb", "use create, update, delete or lost"));
    }
    let at = at.parse().map_err(|_| Problem::invalid(&path("at"), "is not a time", "send it in RFC 3339"))?;
    let some = |text: String| Some(text).filter(|text| !text.is_empty()).map(cut);
    let mut room = LONGEST_GROUPS;
    let groups = groups.into_iter().take(MOST_GROUPS).map(cut).take_while(|group| {
        let fits = group.len() <= room;
        room = room.saturating_sub(group.len());
        fits
    });
    let groups = groups.collect();
    Ok(audit::Admission {
        review: cut(review),
        at,
        who: audit::Actor { name: cut(user), groups },
        verb,
        resource: cut(resource),
        namespace: cut(namespace),
        name: cut(name),
        request: some(request),
        status: status.and_then(|status| u16::try_from(status).ok()),
        reason: some(reason),
        program: some(program),
    })
}

/// Cuts a text to what the log takes, and marks it.
fn cut(text: String) -> String {
    match text.char_indices().nth(LONGEST_TEXT) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text,
    }
}

/// A line, exactly as it was hashed.
pub struct Record(String);

impl Answer<AuditRecord> for Record {
    fn message(self) -> AuditRecord {
        AuditRecord { line: self.0 }
    }

    fn json(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }
}

/// Exports lines.
pub async fn export_audit(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: ExportAuditRequest,
) -> Result<BoxStream<'static, Result<Record, Problem>>, Problem> {
    let opened = service.kept.opened()?;
    let (first, last) = audit::bounds(&opened.store).await?;
    let number = |field: &str, text: &str, missing: i64| match text {
        "" => Ok(missing),
        text => {
            text.parse().map_err(|_| Problem::invalid(field, "is not a number", "send the number of a line"))
        }
    };
    // Lines before the first that is there cannot be continued from.
    let after = number("after", &request.after, first)?.max(first);
    let through = number("through", &request.through, last)?;
    let chunks = audit::export(&opened.store, after, through);
    let records = chunks.flat_map(|chunk| {
        let records: Vec<Result<Record, Problem>> = match chunk {
            Ok(text) => text.lines().map(|line| Ok(Record(line.to_owned()))).collect(),
            Err(error) => vec![Err(error.into())],
        };
        stream::iter(records)
    });
    Ok(records.boxed())
}
