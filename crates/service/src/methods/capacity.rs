//! What would fit into the cluster, and when. For those who may list nodes.

use std::sync::Arc;

use jiff::Timestamp;
use jobs::build;
use jobs::capacity::{self, Ask, CapacityAnswer, When};
use plan::MOST_WORKERS;

use super::availability::{finding, queue_room, resources, wait};
use super::cost;
use crate::access::Right;
use crate::contract::{CheckCapacityRequest, CheckCapacityResponse, NodeRoom};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;

/// The most GPUs of a Worker, and the most nodes in an answer.
const MOST_GPUS: i32 = 1000;
const MOST_NODES: usize = 100;

/// Returns what would fit.
pub async fn check_capacity(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: CheckCapacityRequest,
) -> Result<CheckCapacityResponse, Problem> {
    service.access.require(&caller, Right::on("list", "nodes", ""), "nodes").await?;
    let ask = ask(request)?;
    let namespace = ask.namespace.as_deref().unwrap_or_default();
    let (seen, prices) = futures::join!(service.reading(&caller, namespace), cost::prices(&caller));
    let answer = capacity::capacity(&ask, &*seen?, Timestamp::now());
    let cost = cost::estimate(&prices, &answer.amounts, "");
    Ok(CheckCapacityResponse { cost, ..message(answer) })
}

fn ask(request: CheckCapacityRequest) -> Result<Ask, Problem> {
    let CheckCapacityRequest { workers, gpus, cpu, memory, gpu_resource, namespace, queue } = request;
    let within = |field: &str, number: i32, (least, most): (i32, i32)| match (least..=most).contains(&number)
    {
        true => Ok(()),
        false => Err(Problem::invalid(
            field,
            format!("{number} is out of range"),
            format!("use {least} to {most}"),
        )),
    };
    within("workers", workers, (1, MOST_WORKERS))?;
    within("gpus", gpus, (0, MOST_GPUS))?;
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    let (cpu, memory, queue) = (given(cpu), given(memory), given(queue));
    for (field, text, fix) in [("cpu", &cpu, "use 4, 0.5 or 500m"), ("memory", &memory, "use 512Mi or 16Gi")]
    {
        if text.as_deref().is_some_and(|text| !build::is_quantity(text)) {
            return Err(Problem::invalid(field, "is not a quantity", fix));
        }
    }
    if gpus == 0 && cpu.is_none() && memory.is_none() {
        return Err(Problem::invalid("gpus", "nothing is requested", "request GPUs, CPU or memory"));
    }
    let gpu_resource = given(gpu_resource);
    if gpu_resource.as_deref().is_some_and(|name| !semantics::is_gpu(name)) {
        return Err(Problem::invalid("gpuResource", "is not a GPU", "name it like nvidia.com/gpu"));
    }
    let namespace = given(namespace);
    if queue.is_some() && namespace.is_none() {
        return Err(Problem::invalid("namespace", "is missing", "name the namespace of the queue"));
    }
    let gpus = u32::try_from(gpus).unwrap_or(0);
    Ok(Ask { workers, gpus, gpu_resource, cpu, memory, namespace, queue })
}

fn message(answer: CapacityAnswer) -> CheckCapacityResponse {
    let CapacityAnswer {
        start,
        requested,
        amounts: _,
        free,
        fit,
        workers_in_queue,
        queue,
        wait: waits,
        findings,
    } = answer;
    let start = match start {
        When::Now => "Now",
        When::Later => "Later",
        When::Never => "Never",
        When::Refused => "Refused",
        When::Unknown => "Unknown",
    };
    let nodes = fit.iter().flat_map(|fit| &fit.nodes).take(MOST_NODES);
    CheckCapacityResponse {
        start: start.to_owned(),
        requested: Some(resources(&requested)),
        free: free.as_ref().map(resources),
        workers_now: fit.as_ref().map(|fit| count(fit.now())),
        workers_at_most: fit.as_ref().map(|fit| count(fit.at_most)),
        nodes_with_room: fit.as_ref().map(|fit| count(fit.nodes.len())),
        nodes: nodes
            .map(|(name, workers)| NodeRoom { name: name.clone(), workers: count(*workers) })
            .collect(),
        queue: queue.map(queue_room),
        workers_in_queue: workers_in_queue.map(count),
        wait: waits.as_ref().map(wait),
        findings: findings.iter().map(finding).collect(),
        cost: None,
    }
}
