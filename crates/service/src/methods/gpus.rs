//! GPUs of the cluster and of the namespace's queues, in sums.

use std::sync::Arc;

use jobs::gpus;

use crate::contract::{
    ClusterGpus, GpuSum, ListGpusRequest, ListGpusResponse, QueueGpus, QuotaGpus, QuotaSum,
};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;
use crate::unknown::{self, known};

/// Returns sums of GPUs.
pub async fn list_gpus(
    service: Arc<Service>,
    _caller: Arc<Caller>,
    request: ListGpusRequest,
) -> Result<ListGpusResponse, Problem> {
    let read = service.gpus.read(service.settings.reading).await;
    let mut unknown = Vec::new();
    let cluster = known(&mut unknown, "cluster", "nodes and pods", read.cluster.as_ref().map_err(|why| *why));
    let queues = known(&mut unknown, "queues", "queues", read.queues.as_ref().map_err(|why| *why));
    let of_namespace = |queues: &Vec<gpus::QueueSum>| {
        let queues = queues.iter().filter(|queue| queue.namespace == request.namespace);
        QuotaGpus { queues: queues.map(queue).collect() }
    };
    Ok(ListGpusResponse {
        cluster: cluster.map(|sums| ClusterGpus { sums: sums.iter().map(sum).collect() }),
        queues: queues.map(of_namespace),
        unknown,
    })
}

fn sum(sum: &gpus::GpuSum) -> GpuSum {
    GpuSum {
        resource: sum.resource.clone(),
        model: sum.model.clone(),
        gpus: count(sum.gpus),
        free: count(sum.free),
    }
}

fn queue(queue: &gpus::QueueSum) -> QueueGpus {
    let sum = |sum: &gpus::QuotaSum| QuotaSum {
        resource: sum.resource.clone(),
        gpus: count(sum.gpus),
        free: count(sum.free),
    };
    QueueGpus {
        name: queue.name.clone(),
        stopped: queue.is_stopped,
        sums: queue.gpus.iter().flatten().map(sum).collect(),
        unknown: queue.gpus.as_ref().err().map(|why| unknown::quota("sums", why)),
    }
}
