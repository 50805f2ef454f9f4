//! Computes an object's usage of a ResourceQuota. Pure.
//!
//! Source: `kubernetes/pkg/quota/v1/evaluator/core` and `install` (the resources of each kind), `generic` (scopes).
//! Every kind counts as `count/PLURAL.GROUP`, except Events, which are not counted.

use jiff::{SignedDuration, Timestamp};
use semantics::{Amounts, Quantity, add, has_ended, pod_limits, pod_requests, raw_amounts};
use serde_json::Value;

use super::{LabelSelector, qos};

/// Core kinds that are also counted under their own name.
const NAMED: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
/// The resources of pods besides huge pages and extended resources.
const OF_PODS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// Resources that each container must specify if a quota counts them.
const TO_BE_SAID: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
/// The middle of names of resources that are counted per StorageClass.
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
/// The deprecated annotation for a claim's class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// A resource whose objects a quota counts.
#[derive(Debug, Clone, Copy)]
pub struct Counted<'a> {
    /// The API group.
    pub group: &'a str,
    /// The resource's plural.
    pub plural: &'a str,
}

impl Counted<'_> {
    fn count_name(self) -> String {
        if self.group.is_empty() {
            format!("count/{}", self.plural)
        } else {
            format!("count/{}.{}", self.plural, self.group)
        }
    }

    fn is(self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }

    /// Returns whether the resource is never counted.
    pub fn is_ignored(self) -> bool {
        self.plural == "events" && matches!(self.group, "" | "events.k8s.io")
    }

    /// Returns whether objects of this resource count towards the quota resource of that name.
    pub fn counts_for(self, name: &str) -> bool {
        if self.is_ignored() {
            return false;
        }
        if name == self.count_name() || (NAMED.contains(&self.plural) && self.is(name)) {
            return true;
        }
        match self.plural {
            "pods" if self.is("pods") => {
                OF_PODS.contains(&name) || name.starts_with("hugepages-") || is_extended_request(name)
            }
            "services" if self.is("services") => {
                matches!(name, "services" | "services.loadbalancers" | "services.nodeports")
            }
            "persistentvolumeclaims" if self.is("persistentvolumeclaims") => {
                let own = ["persistentvolumeclaims", "requests.storage"];
                own.contains(&name)
                    || own
                        .iter()
                        .any(|own| name.strip_suffix(own).is_some_and(|class| class.ends_with(BY_CLASS)))
            }
            _ => false,
        }
    }

    /// Returns the usage of one object.
    pub fn usage(self, object: &Value, now: Timestamp) -> Amounts {
        let mut used = Amounts::from([(self.count_name(), whole(1))]);
        match self.plural {
            "pods" if self.is("pods") => pod(object, now, &mut used),
            "services" if self.is("services") => service(object, &mut used),
            "persistentvolumeclaims" if self.is("persistentvolumeclaims") => claim(object, &mut used),
            plural if self.is(plural) && NAMED.contains(&plural) => {
                used.insert(plural.to_owned(), whole(1));
            }
            _ => {}
        }
        used
    }

    /// Returns whether an object is in all scopes of a quota. Only pods have scopes.
    pub fn is_in_scope(self, quota: &Value, object: &Value) -> bool {
        let spec = &quota["spec"];
        let mut plain = spec["scopes"].as_array().into_iter().flatten();
        let plain =
            plain.all(|scope| self.is("pods") && in_scope(scope.as_str().unwrap_or_default(), None, object));
        let chosen = spec["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
        plain
            && chosen.into_iter().all(|term| {
                self.is("pods")
                    && in_scope(term["scopeName"].as_str().unwrap_or_default(), Some(term), object)
            })
    }

    /// Returns what an object must specify but does not, given the resources that a quota counts (`Constraints`).
    pub fn unsaid(self, resources: &[&str], object: &Value) -> Option<String> {
        let spec = &object["spec"];
        if !self.is("pods") || spec["resources"].is_object() {
            return None;
        }
        let mut faults = Vec::new();
        for resource in TO_BE_SAID.iter().filter(|resource| resources.contains(resource)) {
            let containers = ["containers", "initContainers"];
            let containers = containers.iter().flat_map(|list| spec[list].as_array().into_iter().flatten());
            let silent = |container: &&Value| {
                let of = |which: &str| raw_amounts(&container["resources"][which]);
                !computed(&of("requests"), &of("limits")).contains_key(*resource)
            };
            let mut names = containers
                .filter(silent)
                .map(|container| container["name"].as_str().unwrap_or_default())
                .collect::<Vec<_>>();
            names.sort_unstable();
            names.dedup();
            if !names.is_empty() {
                faults.push(format!("{resource} for: {}", names.join(",")));
            }
        }
        (!faults.is_empty()).then(|| format!("must specify {}", faults.join("; ")))
    }
}

fn whole(number: u64) -> Quantity {
    Quantity::of(&number.into()).unwrap_or(Quantity::ZERO)
}

/// Returns whether `name` is `requests.` of huge pages or of an extended resource.
fn is_extended_request(name: &str) -> bool {
    let Some(resource) = name.strip_prefix("requests.") else { return false };
    resource.starts_with("hugepages-")
        || (resource.contains('/')
            && !resource.split('/').next().is_some_and(|of| of.ends_with("kubernetes.io")))
}

/// `podComputeUsageHelper`.
fn computed(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([("pods".to_owned(), whole(1))]);
    for (name, amount) in requests {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-") {
            used.insert(name.clone(), *amount);
        }
        used.insert(format!("requests.{name}"), *amount);
    }
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = limits.get(name) {
            used.insert(format!("limits.{name}"), *amount);
        }
    }
    used
}

/// Returns whether a pod's resources are free: it has ended, or its node has had enough time to end it (`QuotaV1Pod`).
fn is_over(pod: &Value, now: Timestamp) -> bool {
    if has_ended(pod) {
        return true;
    }
    let metadata = &pod["metadata"];
    let marked = metadata["deletionTimestamp"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let (Some(marked), Some(grace)) = (marked, metadata["deletionGracePeriodSeconds"].as_i64()) else {
        return false;
    };
    marked.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
}

fn pod(pod: &Value, now: Timestamp, used: &mut Amounts) {
    if !is_over(pod, now) {
        let spec = &pod["spec"];
        add(used, &computed(&pod_requests(spec), &pod_limits(spec)));
    }
}

fn service(service: &Value, used: &mut Amounts) {
    let spec = &service["spec"];
    used.insert("services".to_owned(), whole(1));
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let count = |ports: usize| whole(u64::try_from(ports).unwrap_or(u64::MAX));
    match spec["type"].as_str() {
        Some("NodePort") => {
            used.insert("services.nodeports".to_owned(), count(ports.len()));
        }
        Some("LoadBalancer") => {
            let given = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
            let all = if spec["allocateLoadBalancerNodePorts"] == false { given } else { ports.len() };
            used.insert("services.nodeports".to_owned(), count(all));
            used.insert("services.loadbalancers".to_owned(), whole(1));
        }
        _ => {}
    }
}

fn claim(claim: &Value, used: &mut Amounts) {
    let class = claim["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = class.or(claim["spec"]["storageClassName"].as_str()).filter(|class| !class.is_empty());
    let mut amounts = vec![("persistentvolumeclaims", whole(1))];
    let asked = Quantity::of(&claim["spec"]["resources"]["requests"]["storage"]).ok();
    let given = Quantity::of(&claim["status"]["allocatedResources"]["storage"]).ok();
    amounts.extend(asked.map(|asked| ("requests.storage", given.map_or(asked, |given| given.max(asked)))));
    for (name, amount) in amounts {
        used.insert(name.to_owned(), amount);
        if let Some(class) = class {
            used.insert(format!("{class}{BY_CLASS}{name}"), amount);
        }
    }
}

fn in_scope(scope: &str, term: Option<&Value>, pod: &Value) -> bool {
    let spec = &pod["spec"];
    let is_terminating = spec["activeDeadlineSeconds"].as_i64().is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => is_terminating,
        "NotTerminating" => !is_terminating,
        "BestEffort" => qos::class(pod) == "BestEffort",
        "NotBestEffort" => qos::class(pod) != "BestEffort",
        "CrossNamespacePodAffinity" => looks_elsewhere(spec),
        "PriorityClass" => {
            let class = spec["priorityClassName"].as_str().filter(|class| !class.is_empty());
            match term {
                Some(term) if term["operator"] != "Exists" => selects_class(term, class),
                _ => class.is_some(),
            }
        }
        _ => false,
    }
}

fn selects_class(term: &Value, class: Option<&str>) -> bool {
    let mut expression = term.clone();
    expression["key"] = "PriorityClass".into();
    let labels =
        class.map_or_else(|| serde_json::json!({}), |class| serde_json::json!({"PriorityClass": class}));
    LabelSelector::of(&serde_json::json!({"matchExpressions": [expression]}))
        .is_ok_and(|selector| selector.matches_labels(&labels))
}

/// Returns whether a pod's affinity refers to pods of other namespaces.
fn looks_elsewhere(spec: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &spec["affinity"][kind];
        let hard =
            affinity["requiredDuringSchedulingIgnoredDuringExecution"].as_array().into_iter().flatten();
        let soft =
            affinity["preferredDuringSchedulingIgnoredDuringExecution"].as_array().into_iter().flatten();
        hard.chain(soft.map(|term| &term["podAffinityTerm"])).any(|term| {
            term["namespaces"].as_array().is_some_and(|names| !names.is_empty())
                || term["namespaceSelector"].is_object()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PODS: Counted<'static> = Counted { group: "", plural: "pods" };

    fn shown(used: &Amounts) -> String {
        used.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn objects_use_quota_resources() {
        let now = Timestamp::from_second(1000).unwrap();
        let pod = json!({"spec": {"containers": [{"resources": {
            "requests": {"cpu": "1", "nvidia.com/gpu": "2"}, "limits": {"cpu": "2", "nvidia.com/gpu": "2"}}}]}});
        let full = "count/pods=1,cpu=1,limits.cpu=2,pods=1,requests.cpu=1,requests.nvidia.com/gpu=2";
        assert_eq!(shown(&PODS.usage(&pod, now)), full);
        let table = [
            (json!({"status": {"phase": "Succeeded"}}), "count/pods=1"),
            (json!({"status": {"phase": "Running"}}), full),
            (
                json!({"spec": {"overhead": {"cpu": "500m"}}}),
                "count/pods=1,cpu=1500m,limits.cpu=2500m,pods=1,requests.cpu=1500m,requests.nvidia.com/gpu=2",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "1970-01-01T00:10:00Z", "deletionGracePeriodSeconds": 30}}),
                "count/pods=1",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "1970-01-01T00:16:30Z", "deletionGracePeriodSeconds": 30}}),
                full,
            ),
        ];
        for (change, expected) in table {
            let mut pod = pod.clone();
            json_patch::merge(&mut pod, &change);
            assert_eq!(shown(&PODS.usage(&pod, now)), expected, "{change}");
        }
        let jobs = Counted { group: "kubeflow.org", plural: "mpijobs" };
        assert_eq!(shown(&jobs.usage(&json!({}), now)), "count/mpijobs.kubeflow.org=1");
        let claims = Counted { group: "", plural: "persistentvolumeclaims" };
        let claim =
            json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}});
        assert_eq!(
            shown(&claims.usage(&claim, now)),
            "count/persistentvolumeclaims=1,fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,\
             fast.storageclass.storage.k8s.io/requests.storage=1Gi,persistentvolumeclaims=1,requests.storage=1Gi"
        );
        let services = Counted { group: "", plural: "services" };
        let service = json!({"spec": {"type": "LoadBalancer", "ports": [{}, {}]}});
        assert_eq!(
            shown(&services.usage(&service, now)),
            "count/services=1,services=1,services.loadbalancers=1,services.nodeports=2"
        );
    }

    #[test]
    fn resources_count_under_their_quota_names() {
        let yes = [
            "pods",
            "count/pods",
            "cpu",
            "limits.memory",
            "requests.nvidia.com/gpu",
            "hugepages-2Mi",
            "requests.hugepages-2Mi",
        ];
        assert!(yes.iter().all(|name| PODS.counts_for(name)));
        let no =
            ["services", "count/jobs.batch", "requests.storage", "limits.nvidia.com/gpu", "nvidia.com/gpu"];
        assert!(!no.iter().any(|name| PODS.counts_for(name)));
        assert!(!Counted { group: "", plural: "events" }.counts_for("count/events"));
    }

    #[test]
    fn scopes_and_required_fields_are_checked() {
        let pod = json!({"spec": {"priorityClassName": "high", "containers": [{"name": "a"},
            {"name": "b", "resources": {"requests": {"cpu": "1"}}}]}});
        let scoped = |scopes: Value| PODS.is_in_scope(&json!({"spec": {"scopes": scopes}}), &pod);
        assert!(scoped(json!([])) && scoped(json!(["NotTerminating", "NotBestEffort", "PriorityClass"])));
        assert!(!scoped(json!(["Terminating"])) && !scoped(json!(["BestEffort"])));
        let class = |operator: &str, values: Value| {
            PODS.is_in_scope(
                &json!({"spec": {"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}}}),
                &pod,
            )
        };
        assert!(
            class("In", json!(["high"])) && !class("In", json!(["low"])) && class("NotIn", json!(["low"]))
        );
        assert!(
            !Counted { group: "", plural: "secrets" }
                .is_in_scope(&json!({"spec": {"scopes": ["NotTerminating"]}}), &json!({}))
        );
        assert_eq!(
            PODS.unsaid(&["requests.cpu", "limits.memory", "pods"], &pod).unwrap(),
            "must specify limits.memory for: a,b; requests.cpu for: a"
        );
    }
}
