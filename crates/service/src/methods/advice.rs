//! Advice about requests, from what former runs of the same programs used.

use std::collections::BTreeMap;
use std::sync::Arc;

use history::namespaces::Tenant;
use history::peaks::{self, Filter, Run};
use jobs::Kind;
use jobs::preflight::PATIENCE;
use jobs::sizing::{self, HEAD_ROOM_PERCENT, Judged, LEAST_RUNS, RequestVerdict, Requested, Used};
use jobs::submit::Draft;

use super::tenant;
use super::visible::Visible;
use crate::access::Right;
use crate::contract::{
    AdviceRun, ListAdviceRequest, ListAdviceResponse, ProgramAdvice, RequestAdvice, RoleAdvice,
};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::program::Program;
use crate::row::time;
use crate::service::Service;

/// The most runs of a program that advice rests on: what it used long ago says little.
const MOST_RUNS: u32 = 20;
/// The most programs in an answer.
const MOST_PROGRAMS: usize = 500;

/// Lists advice about the programs that the caller may see.
pub async fn list_advice(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListAdviceRequest,
) -> Result<ListAdviceResponse, Problem> {
    let namespace = Some(request.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    if let Some(namespace) = namespace {
        Visible::within(&service, &caller, namespace, &Kind::ALL).await?;
    }
    let store = &service.kept.opened()?.store;
    let tenant = tenant::of(&service, &caller, "list", &Kind::ALL).await?;
    let found = peaks::runs(store, Filter { namespace, program: None, tenant }, MOST_RUNS).await?;
    let places = found.iter().filter_map(|run| Some((Kind::named(&run.kind)?, run.namespace.clone())));
    let visible = Visible::among(&service, &caller, &Kind::ALL, places.collect()).await?;
    let is_visible =
        |run: &Run| Kind::named(&run.kind).is_some_and(|kind| visible.shows(kind, &run.namespace));
    let mut programs: Vec<ProgramAdvice> = found
        .chunk_by(|one, next| (&one.namespace, &one.program) == (&next.namespace, &next.program))
        .filter(|runs| runs.iter().all(is_visible))
        .filter_map(|runs| {
            let newest = runs.first()?;
            Some(advice(&newest.program, &requested(newest), runs))
        })
        .collect();
    programs.sort_by_key(urgency);
    let truncated = programs.len() > MOST_PROGRAMS;
    programs.truncate(MOST_PROGRAMS);
    Ok(ListAdviceResponse { programs, basis: basis(), truncated })
}

/// Returns advice about a job that does not exist yet; `None` without former runs that the caller may see.
pub async fn of_draft(
    service: &Service,
    caller: &Caller,
    draft: &Draft,
    namespace: &str,
) -> Option<ProgramAdvice> {
    let program = Program::of(draft.kind, &draft.object["spec"])?;
    let right = Right::on_jobs("list", draft.kind, namespace);
    if !service.access.may(caller, right).await.ok()? {
        return None;
    }
    let opened = service.kept.opened().ok()?;
    // What an earlier namespace of this name ran is not about its jobs.
    let tenant = service.tenants.require_known().map(|()| Tenant::Present).ok()?;
    let filter = Filter { namespace: Some(namespace), program: Some(&program.id), tenant };
    // A job is created without advice where the store does not answer.
    let runs =
        tokio::time::timeout(PATIENCE, peaks::runs(&opened.store, filter, MOST_RUNS)).await.ok()?.ok()?;
    (!runs.is_empty()).then(|| advice(&program.id, &program.requested, &runs))
}

fn requested(run: &Run) -> BTreeMap<String, Requested> {
    let of = |(role, (_, requested)): (&String, &(peaks::Measured, peaks::Requested))| {
        let peaks::Requested { memory_bytes, cpu_millicores } = *requested;
        (role.clone(), Requested { memory_bytes, cpu_millis: cpu_millicores })
    };
    run.roles.iter().map(of).collect()
}

fn used(run: &Run) -> BTreeMap<String, Used> {
    let of = |(role, (measured, _)): (&String, &(peaks::Measured, peaks::Requested))| {
        let peaks::Measured { samples, memory_bytes, cpu_millicores, cpu_millicores_sum } = *measured;
        let used =
            Used { memory_bytes, cpu_millis: cpu_millicores, cpu_millis_sum: cpu_millicores_sum, samples };
        (role.clone(), used)
    };
    run.roles.iter().map(of).collect()
}

/// Returns advice that rests on runs, the newest first.
fn advice(program: &str, requested: &BTreeMap<String, Requested>, runs: &[Run]) -> ProgramAdvice {
    let used: Vec<BTreeMap<String, Used>> = runs.iter().map(used).collect();
    let newest = runs.first();
    let role = |role: sizing::RoleAdvice| RoleAdvice {
        role: role.role,
        memory: Some(judged(role.memory)),
        cpu: Some(judged(role.cpu)),
        mean_cpu: role.mean_cpu,
        samples: role.samples.to_string(),
    };
    let run = |run: &Run| AdviceRun {
        name: run.name.clone(),
        uid: run.uid.clone(),
        started: time(run.started),
        finished: time(run.finished),
    };
    ProgramAdvice {
        namespace: newest.map(|run| run.namespace.clone()).unwrap_or_default(),
        kind: newest.map(|run| run.kind.clone()).unwrap_or_default(),
        program: program.to_owned(),
        image: newest.map(|run| run.image.clone()).unwrap_or_default(),
        roles: sizing::advise(&used, requested).into_iter().map(role).collect(),
        runs: runs.iter().map(run).collect(),
    }
}

fn judged(judged: Judged) -> RequestAdvice {
    let Judged { verdict, requested, peak, suggested, message } = judged;
    RequestAdvice { verdict: word(verdict).to_owned(), requested, peak, suggested, message }
}

fn word(verdict: RequestVerdict) -> &'static str {
    match verdict {
        RequestVerdict::TooLittle => "TooLittle",
        RequestVerdict::TooMuch => "TooMuch",
        RequestVerdict::Fits => "Fits",
        RequestVerdict::NotSet => "NotSet",
        RequestVerdict::Unknown => "Unknown",
    }
}

/// The place of a program in a list: what may fail first, then what wastes.
fn urgency(program: &ProgramAdvice) -> (u8, String, String) {
    let verdicts = program.roles.iter().flat_map(|role| [&role.memory, &role.cpu]).flatten();
    let place = |verdict: &str| match verdict {
        "TooLittle" => 0,
        "TooMuch" => 1,
        "NotSet" => 2,
        "Fits" => 3,
        _ => 4,
    };
    let first = verdicts.map(|advice| place(&advice.verdict)).min().unwrap_or(u8::MAX);
    let name = program.runs.first().map(|run| run.name.clone()).unwrap_or_default();
    (first, program.namespace.clone(), name)
}

/// What advice rests on.
fn basis() -> String {
    format!(
        "The highest use of any pod in the newest {MOST_RUNS} runs that succeeded, with {HEAD_ROOM_PERCENT} % in addition; \
         fewer than {LEAST_RUNS} runs give no figure. The cluster's metrics API is asked every few seconds: a shorter peak \
         may be missed. Runs belong together if kind, image and command are the same."
    )
}
