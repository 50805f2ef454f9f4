//! The cluster in numbers: GPUs, quotas and queues as the caller may read them, and jobs as the caller may see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobs::overview::{self, ClusterQueueUse, LocalQueueUse, ModelUse, NodeUse};

use super::visible::Visible;
use crate::contract::{
    GetOverviewRequest, GpuModel, GpuNode, JobCounts, NamespaceJobs, NamespaceQuota, Overview, Queue,
    QueueResource, QuotaResource, UserJobs,
};
use crate::filter::{Filter, Sent};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;

/// Returns the cluster in numbers.
pub async fn get_overview(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: GetOverviewRequest,
) -> Result<Overview, Problem> {
    let filter = Filter::read(&Sent { namespace: &request.namespace, ..Sent::default() })?;
    let visible = Visible::of(&service, &caller, &filter).await?;
    let (_, jobs) = service.board.snapshot(|entry| filter.selects(entry) && visible.shows_job(entry));
    let mut namespaces: BTreeMap<&str, JobCounts> = BTreeMap::new();
    let mut users: BTreeMap<(&str, &str), JobCounts> = BTreeMap::new();
    for entry in &jobs {
        let row = &entry.row;
        for counts in [
            namespaces.entry(&row.namespace).or_default(),
            users.entry((&row.owner, &row.namespace)).or_default(),
        ] {
            match row.phase.as_str() {
                "Running" => {
                    counts.running += 1;
                    counts.gpus += row.gpus;
                }
                "Pending" => {
                    counts.pending += 1;
                    counts.gpus_asked += row.gpus;
                }
                _ => {}
            }
        }
    }
    let mut places: Vec<String> = namespaces.keys().map(|name| (*name).to_owned()).collect();
    if !request.namespace.is_empty() && places.is_empty() {
        places.push(request.namespace.clone());
    }
    let seen = overview::read(&caller.client, &places).await;
    let is_asked_for = |namespace: &str| request.namespace.is_empty() || request.namespace == namespace;
    let is_active = |counts: &JobCounts| counts.running + counts.pending > 0;
    let queues = seen.cluster_queues.into_iter().map(cluster_queue);
    let local = seen.local_queues.into_iter().filter(|queue| is_asked_for(&queue.namespace)).map(local_queue);
    Ok(Overview {
        nodes: seen.nodes.into_iter().map(node).collect(),
        models: seen.models.into_iter().map(model).collect(),
        namespaces: namespaces
            .into_iter()
            .filter(|(_, counts)| is_active(counts))
            .map(|(name, counts)| NamespaceJobs { namespace: name.to_owned(), jobs: Some(counts) })
            .collect(),
        users: users
            .into_iter()
            .filter(|(_, counts)| is_active(counts))
            .map(|((user, namespace), counts)| UserJobs {
                user: user.to_owned(),
                namespace: namespace.to_owned(),
                jobs: Some(counts),
            })
            .collect(),
        quotas: seen.quotas.into_iter().filter(|quota| is_asked_for(&quota.namespace)).map(quota).collect(),
        queues: queues.chain(local).collect(),
        unread: seen.unread.into_iter().map(str::to_owned).collect(),
    })
}

fn node(node: NodeUse) -> GpuNode {
    GpuNode {
        name: node.name,
        model: node.model,
        usable: node.usable,
        gpus: count(node.gpus),
        used: node.used.map(count),
    }
}

fn model(model: ModelUse) -> GpuModel {
    GpuModel {
        model: model.model,
        gpus: count(model.gpus),
        used: model.used.map(count),
        free: model.free.map(count),
        asked: model.asked.map(count),
    }
}

fn quota(quota: overview::QuotaUse) -> NamespaceQuota {
    let resource = |resource: overview::QuotaResource| QuotaResource {
        quota: resource.quota,
        resource: resource.resource,
        used: resource.used,
        hard: resource.hard,
        percent: count(resource.percent),
    };
    NamespaceQuota {
        message: format!("{} quota {}% consumed", quota.namespace, quota.percent),
        namespace: quota.namespace,
        percent: count(quota.percent),
        resources: quota.resources.into_iter().map(resource).collect(),
    }
}

fn cluster_queue(queue: ClusterQueueUse) -> Queue {
    let resource = |resource: overview::QueueResource| QueueResource {
        resource: resource.resource,
        nominal: resource.nominal,
        used: resource.used,
        borrowed: resource.borrowed,
    };
    Queue {
        name: queue.name,
        cohort: queue.cohort.unwrap_or_default(),
        stopped: queue.stopped,
        pending: count(queue.pending),
        admitted: count(queue.admitted),
        resources: queue.resources.into_iter().map(resource).collect(),
        ..Queue::default()
    }
}

fn local_queue(queue: LocalQueueUse) -> Queue {
    Queue {
        name: queue.name,
        namespace: queue.namespace,
        cluster_queue: queue.cluster_queue,
        pending: count(queue.pending),
        admitted: count(queue.admitted),
        ..Queue::default()
    }
}
