//! What a form can offer for a job in a namespace, each part as the caller may read it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use jobs::Kind;
use jobs::choices::{self, HardwareProfile, Listed, Unread};
use jobs::runtime::Runtime;
use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::time::timeout;

use super::availability::resources;
use crate::access::Right;
use crate::contract::{
    ClaimChoice, ClaimChoices, ConfigMapChoices, HardwareProfileChoice, HardwareProfileChoices,
    HardwareResource, ImageChoices, JobToleration, ListChoicesRequest, ListChoicesResponse,
    PriorityClassChoice, PriorityClassChoices, QueueChoice, QueueChoices, RuntimeChoice, RuntimeChoices,
    SecretChoice, SecretChoices,
};
use crate::identity::Caller;
use crate::problem::Problem;
use crate::row::count;
use crate::service::Service;
use crate::unknown::{self, Unknown, known};

/// The most images, and the most bytes of one.
const MOST_IMAGES: usize = 20;
const LONGEST_IMAGE: usize = 1024;

/// Lists what a form can offer.
pub async fn list_choices(
    service: Arc<Service>,
    caller: Arc<Caller>,
    request: ListChoicesRequest,
) -> Result<ListChoicesResponse, Problem> {
    let (client, namespace) = (&caller.client, request.namespace.as_str());
    let patience = service.settings.patience_with_parts();
    let (claims, secrets, config_maps, queues, classes, runtimes, profiles, images) = futures::join!(
        within(patience, choices::claims(client, namespace)),
        within(patience, choices::secrets(client, namespace)),
        within(patience, choices::config_maps(client, namespace)),
        within(patience, choices::queues(client, namespace)),
        within(patience, choices::priority_classes(client)),
        within(patience, choices::runtimes(client, namespace)),
        within(patience, choices::hardware_profiles(client, namespace)),
        timeout(patience, images(&service, &caller, namespace)),
    );
    let images = images.unwrap_or(Err(Unknown::Late));
    let mut unknown = Vec::new();
    let unread = &mut unknown;
    Ok(ListChoicesResponse {
        claims: known(unread, "claims", "volume claims", claims).map(claim_choices),
        secrets: known(unread, "secrets", "Secrets", secrets).map(secret_choices),
        config_maps: known(unread, "configMaps", "ConfigMaps", config_maps)
            .map(|found| ConfigMapChoices { names: found.items, more: found.more }),
        queues: known(unread, "queues", "LocalQueues", queues).map(queue_choices),
        priority_classes: known(unread, "priorityClasses", "priority classes", classes).map(class_choices),
        runtimes: known(unread, "runtimes", "runtimes", runtimes).map(runtime_choices),
        images: known(unread, "images", "jobs", images).map(|images| ImageChoices { images }),
        hardware_profiles: known(unread, "hardwareProfiles", "hardware profiles", profiles)
            .map(profile_choices),
        unknown,
    })
}

/// Reads a part in time.
async fn within<T>(
    patience: Duration,
    read: impl Future<Output = Result<Listed<T>, Unread>>,
) -> Result<Listed<T>, Unknown> {
    let read = timeout(patience, read).await.map_err(|_| Unknown::Late)?;
    read.map_err(|why| match why {
        Unread::NotAllowed => Unknown::NotAllowed,
        Unread::Failed => Unknown::Unreadable,
    })
}

/// The images of the namespace's newest jobs, among those that the caller may list.
async fn images(service: &Service, caller: &Caller, namespace: &str) -> Result<Vec<String>, Unknown> {
    let asked = Kind::ALL.into_iter().map(|kind| Right::on_jobs("list", kind, namespace)).collect();
    let allowed = service.access.among(caller, asked).await.map_err(|_| Unknown::Unreadable)?;
    if allowed.is_empty() {
        return Err(Unknown::NotAllowed);
    }
    let is_visible = |kind: Kind| allowed.iter().any(|right| right.resource == kind.plural());
    let mut images: Vec<String> = Vec::new();
    service.board.by_age(None, |entry| {
        let image = &*entry.image;
        let is_image = !image.is_empty() && image.len() <= LONGEST_IMAGE;
        let is_new = || !images.iter().any(|known| known == image);
        if entry.row.namespace == namespace && is_image && is_visible(entry.kind) && is_new() {
            images.push(image.to_owned());
        }
        images.len() < MOST_IMAGES
    });
    Ok(images)
}

fn claim_choices(found: Listed<choices::Claim>) -> ClaimChoices {
    let claim = |claim: choices::Claim| ClaimChoice {
        name: claim.name,
        access_modes: claim.access_modes,
        size: claim.size,
        phase: claim.phase,
    };
    ClaimChoices { claims: found.items.into_iter().map(claim).collect(), more: found.more }
}

fn secret_choices(found: Listed<choices::SecretName>) -> SecretChoices {
    let secret =
        |secret: choices::SecretName| SecretChoice { name: secret.name, image_pull: secret.is_image_pull };
    SecretChoices { secrets: found.items.into_iter().map(secret).collect(), more: found.more }
}

fn queue_choices(found: Listed<choices::QueueChoice>) -> QueueChoices {
    let queue = |queue: choices::QueueChoice| QueueChoice {
        name: queue.name,
        cluster_queue: queue.cluster_queue,
        stopped: queue.is_stopped,
        pending: queue.pending.map(count),
        free: queue.free.as_ref().map(resources),
        unknown: queue.unknown.as_ref().map(|why| unknown::quota("free", why)),
    };
    QueueChoices { queues: found.items.into_iter().map(queue).collect(), more: found.more }
}

fn class_choices(found: Listed<choices::Priority>) -> PriorityClassChoices {
    let class = |class: choices::Priority| PriorityClassChoice {
        name: class.name,
        value: class.value,
        standard: class.is_default,
    };
    PriorityClassChoices { classes: found.items.into_iter().map(class).collect(), more: found.more }
}

fn runtime_choices(found: Listed<Runtime>) -> RuntimeChoices {
    let runtime = |runtime: Runtime| RuntimeChoice {
        reference: runtime.reference,
        kind: runtime.kind,
        framework: runtime.framework.unwrap_or_default(),
        mpi: runtime.mpi_implementation.unwrap_or_default(),
        nodes: runtime.nodes,
        images: runtime.images,
    };
    RuntimeChoices { runtimes: found.items.into_iter().map(runtime).collect(), more: found.more }
}

fn profile_choices(found: Listed<HardwareProfile>) -> HardwareProfileChoices {
    HardwareProfileChoices { profiles: found.items.into_iter().map(profile).collect(), more: found.more }
}

fn profile(profile: HardwareProfile) -> HardwareProfileChoice {
    let amount = |amount: Option<IntOrString>| match amount {
        Some(IntOrString::Int(number)) => number.to_string(),
        Some(IntOrString::String(text)) => text,
        None => String::new(),
    };
    let resource = |found: choices::HardwareIdentifier| HardwareResource {
        resource: found.identifier,
        title: found.display_name,
        r#type: found.resource_type,
        minimum: amount(found.min_count),
        maximum: amount(found.max_count),
        initial: amount(found.default_count),
    };
    let choices::HardwareSpec { identifiers, scheduling } = profile.spec;
    HardwareProfileChoice {
        namespace: profile.namespace,
        name: profile.name,
        title: profile.title,
        description: profile.description,
        resources: identifiers.into_iter().map(resource).collect(),
        queue: scheduling.kueue.local_queue_name,
        workload_priority_class: scheduling.kueue.priority_class,
        node_selector: scheduling.node.node_selector,
        tolerations: scheduling.node.tolerations.into_iter().map(toleration).collect(),
    }
}

fn toleration(toleration: Toleration) -> JobToleration {
    JobToleration {
        key: toleration.key.unwrap_or_default(),
        // What Kubernetes takes for a missing operator.
        operator: toleration.operator.unwrap_or_else(|| "Equal".to_owned()),
        value: toleration.value.unwrap_or_default(),
        effect: toleration.effect.unwrap_or_default(),
        toleration_seconds: toleration.toleration_seconds.map(count),
    }
}
