//! Decisions about a job that need no requests: defaults, faults, warnings. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::{ANNOTATION_OWNER, MPIJob};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

use super::review::{Decision, Request};

/// The API server cuts a warning at 256 characters, and drops all beyond a total of 4096.
const LONGEST_WARNING: usize = 256;
/// The most changed fields that an audit line names; the rest are only counted.
const MOST_FIELDS: usize = 20;
/// How deep below `spec` fields are named.
const DEEPEST_FIELD: usize = 3;
/// The annotations and labels by which the operator, the dashboard and queues decide about a job.
const DECIDING_ANNOTATIONS: [&str; 3] =
    ["training.opendatahub.io/", "trainer.opendatahub.io/", "opendatahub.io/"];
const DECIDING_LABELS: [&str; 2] = ["kueue.x-k8s.io/", "opendatahub.io/"];

/// Annotations or labels.
type Texts = BTreeMap<String, String>;

/// Fills in defaults and the owner. Of a job of another manager, only the owner.
pub(super) fn default(request: &Request, trusted_creators: &[String]) -> Decision {
    let Some(job) = &request.object else { return Decision::default() };
    if request.operation != "CREATE" {
        return Decision::default();
    }
    let owner = owner(request, trusted_creators);
    if !plan::is_ours(job) {
        return Decision { patch: owner, ..Decision::default() };
    }
    let (Ok(open), Ok(filled)) = (serde_json::to_value(job), serde_json::to_value(plan::defaulted(job)))
    else {
        return Decision::default();
    };
    let mut patch = Vec::new();
    additions("/spec", &open["spec"], &filled["spec"], &mut patch);
    patch.extend(owner);
    Decision { patch, ..Decision::default() }
}

/// Records in a new job who creates it, even if the job names another: the usage is counted by it. Only a job of a trusted creator
/// keeps the owner that it names.
pub(super) fn owner<K: kube::Resource>(request: &Request<K>, trusted_creators: &[String]) -> Vec<Value> {
    let (Some(job), "CREATE", user) =
        (&request.object, request.operation.as_str(), &request.user_info.username)
    else {
        return Vec::new();
    };
    let annotations = job.meta().annotations.as_ref();
    let is_recorded = annotations.is_some_and(|annotations| annotations.get(ANNOTATION_OWNER) == Some(user));
    let is_trusted = trusted_creators.contains(user) && plan::owner(job.meta()).is_some();
    if user.is_empty() || is_recorded || is_trusted {
        return Vec::new();
    }
    let path = "/metadata/annotations";
    let named =
        json!({ "op": "add", "path": format!("{path}/{}", pointer(ANNOTATION_OWNER)), "value": user });
    match annotations {
        Some(_) => vec![named],
        None => vec![json!({ "op": "add", "path": path, "value": {} }), named],
    }
}

/// Refuses a change of a job's owner, unless a trusted creator makes it or the job had none and gets the user that asks. A
/// job that is being deleted keeps its owner, too: its usage is still counted.
pub(super) fn owner_change<K: kube::Resource>(
    request: &Request<K>,
    trusted_creators: &[String],
) -> Option<Decision> {
    let (old, new) = (request.old_object.as_ref()?, request.object.as_ref()?);
    let (before, after) = (plan::owner(old.meta()), plan::owner(new.meta()));
    let user = &request.user_info.username;
    let is_own = before.is_none() && after == Some(user.as_str());
    if before == after || is_own || trusted_creators.contains(user) {
        return None;
    }
    let message = format!("metadata.annotations[{ANNOTATION_OWNER}]: the owner of a job cannot be changed");
    Some(Decision::deny(422, "Invalid", message))
}

/// Escapes a field's name for a JSON pointer (RFC 6901).
fn pointer(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

/// Adds to `patch` the operations that turn `open` into `filled`.
fn additions(path: &str, open: &Value, filled: &Value, patch: &mut Vec<Value>) {
    let (Value::Object(open), Value::Object(filled)) = (open, filled) else {
        if open != filled {
            patch.push(json!({ "op": "replace", "path": path, "value": filled }));
        }
        return;
    };
    for (field, value) in filled {
        let path = format!("{path}/{}", pointer(field));
        match open.get(field) {
            Some(before) => additions(&path, before, value, patch),
            None => patch.push(json!({ "op": "add", "path": path, "value": value })),
        }
    }
}

/// Refuses a job that cannot run, with every fault, and warns about settings that work differently than expected. A
/// change that leaves the spec alone passes, except for faults that it introduces itself, for example in an
/// annotation: somebody who removes a finalizer from an invalid job, or adds another controller's annotation, must
/// be able to.
pub(super) fn validate(request: &Request) -> Decision {
    let Some(job) = &request.object else { return Decision::default() };
    if job.metadata.deletion_timestamp.is_some() {
        return Decision::default();
    }
    let before = request.old_object.as_ref().filter(|old| old.spec == job.spec);
    if before.is_some_and(|old| old.metadata.annotations == job.metadata.annotations) {
        return Decision::default();
    }
    let changes =
        request.old_object.as_ref().map(|old| plan::forbidden_changes(old, job)).unwrap_or_default();
    if !changes.is_empty() {
        let listed: Vec<String> = changes.iter().map(ToString::to_string).collect();
        return Decision::deny(422, "Invalid", listed.join("; "));
    }
    match plan::validate(job) {
        Ok(valid) => {
            // Somebody who changes a label has read them when the job was created.
            let advice = if request.old_object.is_none() { plan::advise(&valid) } else { Vec::new() };
            let warnings = advice.into_iter().map(|advice| cut(&advice)).collect();
            Decision { warnings, ..Decision::default() }
        }
        Err(faults) => {
            let known = before.and_then(|old| plan::validate(old).err()).unwrap_or_default();
            let new = faults.iter().filter(|fault| !known.contains(fault));
            let listed: Vec<String> = new.map(ToString::to_string).collect();
            match listed.is_empty() {
                true => Decision::default(),
                false => {
                    Decision::deny(422, "Invalid", format!("Found validation errors: {}", listed.join("; ")))
                }
            }
        }
    }
}

fn cut(text: &str) -> String {
    text.char_indices().take_while(|(at, c)| at + c.len_utf8() <= LONGEST_WARNING).map(|(_, c)| c).collect()
}

/// Returns whether the request takes one of the namespace's places: a new job that is to run, or one that is resumed. Only
/// Kueue itself resumes jobs without taking one: it has reserved their quota, which a refusal would leave idle while it
/// retries. The label of a queue proves nothing, because anybody may set it.
pub(super) fn takes_place(request: &Request, kueue_accounts: &[String]) -> bool {
    let held = |job: &MPIJob| {
        job.spec.run_policy.as_ref().and_then(|policy| policy.suspend).unwrap_or(false)
            || job.metadata.deletion_timestamp.is_some()
    };
    let Some(job) = request.object.as_ref().filter(|job| !held(job)) else { return false };
    let by_kueue = || kueue_accounts.contains(&request.user_info.username);
    plan::is_ours(job) && request.old_object.as_ref().is_none_or(|old| held(old) && !by_kueue())
}

/// Returns the refusal of a job that finds all places taken.
pub(super) fn no_place(request: &Request, running: usize, limit: usize) -> Decision {
    let mut message = format!("Quota exceeded: {running}/{limit} jobs running");
    let labels = request.old_object.as_ref().and_then(|old| old.metadata.labels.as_ref());
    if labels.is_some_and(|labels| labels.contains_key(api::LABEL_QUEUE_NAME)) {
        let user = &request.user_info.username;
        message.push_str(&format!(
            "; only Kueue may resume a job of a queue beyond this limit, and --kueue-accounts of mpi-operator does not \
             list {user}"
        ));
    }
    Decision::deny(403, "Forbidden", message)
}

/// Returns the fields that differ, for the audit line: those below `spec`, and what of the metadata decides about a job.
pub(super) fn changed_fields<K: kube::Resource + Serialize>(request: &Request<K>) -> Vec<String> {
    let (Some(old), Some(new)) = (&request.old_object, &request.object) else { return Vec::new() };
    let mut fields = changed_metadata(old.meta(), new.meta());
    let (Ok(old), Ok(new)) = (serde_json::to_value(old), serde_json::to_value(new)) else {
        return fields;
    };
    differing("spec", &old["spec"], &new["spec"], DEEPEST_FIELD, &mut fields);
    fields.truncate(MOST_FIELDS);
    fields
}

/// Returns what differs of the metadata by which the operator and queues decide.
fn changed_metadata(old: &ObjectMeta, new: &ObjectMeta) -> Vec<String> {
    let mut fields = Vec::new();
    let mut keys = |path: &str, prefixes: &[&str], old: Option<&Texts>, new: Option<&Texts>| {
        let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(BTreeMap::keys).collect();
        let of = |texts: Option<&'_ Texts>, name: &String| texts.and_then(|texts| texts.get(name).cloned());
        let changed = names
            .into_iter()
            .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
            .filter(|name| of(old, name) != of(new, name));
        fields.extend(changed.map(|name| format!("metadata.{path}[{name}]")));
    };
    keys("annotations", &DECIDING_ANNOTATIONS, old.annotations.as_ref(), new.annotations.as_ref());
    keys("labels", &DECIDING_LABELS, old.labels.as_ref(), new.labels.as_ref());
    if old.finalizers != new.finalizers {
        fields.push("metadata.finalizers".to_owned());
    }
    if old.owner_references != new.owner_references {
        fields.push("metadata.ownerReferences".to_owned());
    }
    fields
}

fn differing(path: &str, old: &Value, new: &Value, depth: usize, fields: &mut Vec<String>) {
    if old == new {
        return;
    }
    let (Value::Object(old), Value::Object(new), 1..) = (old, new, depth) else {
        return fields.push(path.to_owned());
    };
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (old, new) = (old.get(name).unwrap_or(&Value::Null), new.get(name).unwrap_or(&Value::Null));
        differing(&format!("{path}.{name}"), old, new, depth - 1, fields);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: &str, old: Option<Value>, new: Option<Value>) -> Request {
        let request = json!({ "uid": "u", "operation": operation, "name": "pi", "namespace": "team",
            "object": new, "oldObject": old });
        serde_json::from_value(request).unwrap()
    }

    fn job(policy: &Value, workers: i32) -> Value {
        let template = json!({ "spec": { "containers": [{ "name": "main", "image": "mpi:1" }] } });
        json!({ "metadata": { "name": "pi" }, "spec": { "runPolicy": policy, "mpiReplicaSpecs": {
            "Launcher": { "template": template }, "Worker": { "replicas": workers, "template": template } } } })
    }

    #[test]
    fn defaults_are_filled_in_on_creation() {
        let new = job(&json!({ "suspend": true }), 2);
        let decision = default(&request("CREATE", None, Some(new.clone())), &[]);
        let paths: Vec<&str> = decision.patch.iter().map(|patch| patch["path"].as_str().unwrap()).collect();
        assert!(paths.contains(&"/spec/mpiReplicaSpecs/Launcher/replicas"), "{paths:?}");
        assert!(
            paths.contains(&"/spec/runPolicy/cleanPodPolicy") && !paths.contains(&"/spec/runPolicy/suspend")
        );
        assert!(decision.patch.iter().all(|patch| patch["op"] == "add"));
        let others = job(&json!({ "managedBy": "kueue.x-k8s.io/multikueue" }), 2);
        assert_eq!(default(&request("CREATE", None, Some(others)), &[]), Decision::default());
        assert_eq!(default(&request("UPDATE", Some(new.clone()), Some(new)), &[]), Decision::default());
    }

    /// A request of a user for a job with this metadata, before and after.
    fn of_user(operation: &str, user: &str, old: Option<Value>, new: Value) -> Request {
        let before = old.as_ref().map(|_| job(&json!({}), 2));
        let mut request = request(operation, before, Some(job(&json!({}), 2)));
        request.user_info.username = user.to_owned();
        if let (Some(job), Some(metadata)) = (&mut request.old_object, old) {
            job.metadata = serde_json::from_value(metadata).unwrap();
        }
        request.object.as_mut().unwrap().metadata = serde_json::from_value(new).unwrap();
        request
    }

    const DASHBOARD: &str = "system:serviceaccount:odh:dashboard";

    #[test]
    fn a_new_job_is_its_creators_whoever_it_names() {
        let created = |metadata: Value, user: &str| {
            owner(&of_user("CREATE", user, None, metadata), &[DASHBOARD.to_owned()])
        };
        let named = json!({ "op": "add", "path": "/metadata/annotations/training.opendatahub.io~1owner", "value": "jane" });
        assert_eq!(created(json!({ "annotations": { "a": "b" } }), "jane"), std::slice::from_ref(&named));
        let none = json!({ "op": "add", "path": "/metadata/annotations", "value": {} });
        assert_eq!(created(json!({}), "jane"), [none.clone(), named.clone()]);
        assert_eq!(created(json!({}), ""), [Value::Null; 0], "nobody is known");
        assert_eq!(created(json!({ "annotations": { ANNOTATION_OWNER: "jane" } }), "jane"), [Value::Null; 0]);
        for (theirs, expected) in [
            (json!({ "annotations": { ANNOTATION_OWNER: "joe" } }), vec![named.clone()]),
            (json!({ "annotations": { api::ANNOTATION_DASHBOARD_USER: "joe" } }), vec![named.clone()]),
            (json!({ "labels": { api::LABEL_DASHBOARD_USER: "joe" } }), vec![none, named]),
        ] {
            assert_eq!(created(theirs.clone(), "jane"), expected);
            assert_eq!(created(theirs, DASHBOARD), [Value::Null; 0], "a trusted creator");
        }
    }

    #[test]
    fn the_owner_of_a_job_cannot_be_changed() {
        let trusted = [DASHBOARD.to_owned()];
        let joes = || json!({ "annotations": { ANNOTATION_OWNER: "joe" } });
        let changed = |user: &str, old: Value, new: Value| {
            owner_change(&of_user("UPDATE", user, Some(old), new), &trusted).is_some()
        };
        assert!(changed("jane", joes(), json!({ "annotations": { ANNOTATION_OWNER: "jane" } })));
        assert!(changed("joe", joes(), json!({})));
        assert!(changed("jane", json!({}), json!({ "labels": { api::LABEL_DASHBOARD_USER: "joe" } })));
        assert!(!changed("jane", json!({}), json!({ "annotations": { ANNOTATION_OWNER: "jane" } })));
        assert!(!changed("jane", joes(), json!({ "annotations": { ANNOTATION_OWNER: "joe", "a": "b" } })));
        assert!(!changed(DASHBOARD, joes(), json!({})));
        // A finalizer of one's own keeps a deleted job for as long as one likes.
        let going = |owner: &str| {
            json!({ "annotations": { ANNOTATION_OWNER: owner }, "finalizers": ["example.com/wait"],
                "deletionTimestamp": "2026-01-01T00:00:00Z" })
        };
        assert!(changed("jane", going("joe"), going("jane")));
        let mut released = going("joe");
        released["finalizers"] = json!([]);
        assert!(!changed("jane", going("joe"), released), "its finalizers may be removed");
    }

    #[test]
    fn changes_of_metadata_that_decide_about_a_job_are_named() {
        let old = json!({ "annotations": { "a": "b", ANNOTATION_OWNER: "joe" }, "finalizers": ["x"] });
        let new = json!({ "annotations": { "a": "c", ANNOTATION_OWNER: "boss", api::ANNOTATION_CANCEL: "true",
                "trainer.opendatahub.io/metrics-port": "9000" },
            "labels": { api::LABEL_QUEUE_NAME: "q", "team": "t" },
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" }] });
        let fields = changed_fields(&of_user("UPDATE", "jane", Some(old), new));
        let expected = [
            "metadata.annotations[trainer.opendatahub.io/metrics-port]",
            "metadata.annotations[training.opendatahub.io/cancel]",
            "metadata.annotations[training.opendatahub.io/owner]",
            "metadata.labels[kueue.x-k8s.io/queue-name]",
            "metadata.finalizers",
            "metadata.ownerReferences",
        ];
        assert_eq!(fields, expected);
    }

    #[test]
    fn every_fault_is_named_and_an_untouched_spec_passes() {
        let bad = job(&json!({ "backoffLimit": -1, "ttlSecondsAfterFinished": -1 }), 0);
        let denial = validate(&request("CREATE", None, Some(bad.clone()))).denial.unwrap();
        assert_eq!((denial.code, denial.reason), (422, "Invalid"));
        for path in ["backoffLimit", "ttlSecondsAfterFinished", "mpiReplicaSpecs[Worker].replicas"] {
            assert!(denial.message.contains(path), "{}", denial.message);
        }
        let mut labelled = bad.clone();
        labelled["metadata"]["finalizers"] = json!([]);
        assert_eq!(validate(&request("UPDATE", Some(bad), Some(labelled))), Decision::default());
    }

    #[test]
    fn a_change_of_an_immutable_field_is_refused() {
        let old = job(&json!({}), 2);
        let mut new = old.clone();
        new["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwork"] = json!(true);
        let denial = validate(&request("UPDATE", Some(old.clone()), Some(new))).denial.unwrap();
        assert_eq!((denial.code, denial.reason), (422, "Invalid"));
        assert!(
            denial.message.contains("Worker].template.spec.hostNetwork: cannot be changed"),
            "{denial:?}"
        );
        let mut written_back = old.clone();
        let containers = "/spec/mpiReplicaSpecs/Worker/template/spec/containers/0";
        written_back.pointer_mut(containers).unwrap()["resources"] = json!({});
        assert_eq!(validate(&request("UPDATE", Some(old), Some(written_back))).denial, None);
    }

    #[test]
    fn a_changed_annotation_is_refused_only_for_faults_that_it_introduces() {
        let bad = job(&json!({ "backoffLimit": -1 }), 0);
        let with = |annotations: Value| {
            let mut job = bad.clone();
            job["metadata"]["annotations"] = annotations;
            validate(&request("UPDATE", Some(bad.clone()), Some(job))).denial
        };
        assert_eq!(with(json!({ "example.com/note": "seen" })), None);
        assert_eq!(with(json!({ api::ANNOTATION_START_TIMEOUT: "5m" })), None);
        let denial = with(json!({ api::ANNOTATION_START_TIMEOUT: "soon" })).unwrap();
        assert!(denial.message.contains(api::ANNOTATION_START_TIMEOUT), "{denial:?}");
        assert!(!denial.message.contains("backoffLimit"), "{denial:?}");
    }

    const KUEUE: &str = "system:serviceaccount:kueue-system:kueue-controller-manager";

    #[test]
    fn a_job_takes_a_place_when_it_is_created_or_resumed_by_anybody_but_kueue() {
        let (held, free) = (job(&json!({ "suspend": true }), 1), job(&json!({}), 1));
        let takes = |user: &str, operation: &str, old: Option<&Value>, new: Option<&Value>| {
            let mut request = request(operation, old.cloned(), new.cloned());
            request.user_info.username = user.to_owned();
            takes_place(&request, &[KUEUE.to_owned()])
        };
        let queued = |job: &Value| {
            let mut job = job.clone();
            job["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gpus" });
            job
        };
        let (queued_held, queued_free) = (queued(&held), queued(&free));
        for (held, free) in [(&held, &free), (&queued_held, &queued_free), (&held, &queued_free)] {
            assert!(takes("jane", "CREATE", None, Some(free)));
            assert!(takes("jane", "UPDATE", Some(held), Some(free)));
            assert!(!takes(KUEUE, "UPDATE", Some(held), Some(free)));
            for user in ["jane", KUEUE] {
                assert!(!takes(user, "CREATE", None, Some(held)));
                assert!(!takes(user, "UPDATE", Some(free), Some(held)));
                assert!(!takes(user, "UPDATE", Some(free), Some(free)));
                assert!(!takes(user, "DELETE", Some(free), None));
            }
        }
        assert!(takes(KUEUE, "CREATE", None, Some(&queued_free)), "no quota was reserved for it");
    }

    #[test]
    fn the_refusal_of_a_queued_job_names_the_flag_that_lists_kueues_accounts() {
        let (held, free) = (job(&json!({ "suspend": true }), 1), job(&json!({}), 1));
        let refusal = |labels: Value| {
            let mut held = held.clone();
            held["metadata"]["labels"] = labels;
            let mut request = request("UPDATE", Some(held), Some(free.clone()));
            request.user_info.username = "kueue".to_owned();
            no_place(&request, 2, 2).denial.unwrap().message
        };
        assert_eq!(refusal(json!({ "team": "a" })), "Quota exceeded: 2/2 jobs running");
        let queued = refusal(json!({ api::LABEL_QUEUE_NAME: "gpus" }));
        assert!(queued.starts_with("Quota exceeded: 2/2 jobs running; "), "{queued}");
        assert!(queued.ends_with("--kueue-accounts of mpi-operator does not list kueue"), "{queued}");
    }

    #[test]
    fn changed_fields_are_named_by_their_paths() {
        let (old, new) = (job(&json!({}), 1), job(&json!({ "suspend": true }), 3));
        let fields = changed_fields(&request("UPDATE", Some(old), Some(new)));
        assert_eq!(fields, ["spec.mpiReplicaSpecs.Worker.replicas", "spec.runPolicy.suspend"]);
    }
}
