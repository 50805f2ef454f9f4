//! Steps of roll-outs, as numbers of pods per set.

use super::*;
use serde_json::json;

fn deployment(image: &str, replicas: i32, strategy: serde_json::Value) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "d", "namespace": "n", "uid": "u"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "strategy": strategy,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": image}]}}},
    }))
    .unwrap()
}

fn rolling() -> serde_json::Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
}

/// Creates a set of a Deployment with this image.
fn set(image: &str, revision: i64, size: i32, available: i32) -> Arc<ReplicaSet> {
    let mut set = new_set(&deployment(image, size, rolling()), size, revision);
    set.status = serde_json::from_value(json!({"replicas": size, "availableReplicas": available})).unwrap();
    Arc::new(set)
}

fn sizes(plan: &Plan) -> Vec<i32> {
    plan.resize.iter().map(|(_, to)| *to).collect()
}

#[test]
fn the_first_set_has_all_pods_and_revision_one() {
    let plan = decide(&deployment("x", 3, rolling()), &[], false);
    let made = plan.create.unwrap();
    assert_eq!((size(&made), revision(&made), plan.resize.len()), (3, 1, 0));
    let hash = made.labels()[HASH_LABEL].clone();
    assert_eq!(made.name_any(), format!("d-{hash}"));
    assert!(hash.bytes().all(|letter| letter.is_ascii_alphanumeric()));
}

#[test]
fn a_roll_out_keeps_within_its_limits() {
    let wanted = deployment("y", 4, rolling());
    let begun = decide(&wanted, &[set("x", 1, 4, 4)], false);
    assert_eq!((size(begun.create.as_ref().unwrap()), begun.revision), (1, 2));
    let next = decide(&wanted, &[set("x", 1, 4, 4), set("y", 2, 1, 0)], false);
    assert_eq!(sizes(&next), [3], "one of four may be missing");
    let later = decide(&wanted, &[set("x", 1, 3, 3), set("y", 2, 1, 0)], false);
    assert_eq!(sizes(&later), [2], "the new set grows by what the old one lost");
    let last = decide(&wanted, &[set("x", 1, 0, 0), set("y", 2, 4, 4)], false);
    assert_eq!((sizes(&last), last.create), (vec![], None));
}

#[test]
fn unavailable_pods_are_removed_first() {
    let wanted = deployment("z", 4, rolling());
    let sets = [set("x", 1, 2, 2), set("y", 2, 2, 0), set("z", 3, 1, 1)];
    let plan = decide(&wanted, &sets, false);
    assert_eq!(plan.resize, [(sets[1].name_any(), 0)].to_vec());
}

#[test]
fn recreation_waits_for_the_last_old_pod() {
    let wanted = deployment("y", 2, json!({"type": "Recreate"}));
    assert_eq!(sizes(&decide(&wanted, &[set("x", 1, 2, 2)], true)), [0]);
    assert_eq!(decide(&wanted, &[set("x", 1, 0, 0)], true).create, None);
    assert_eq!(size(&decide(&wanted, &[set("x", 1, 0, 0)], false).create.unwrap()), 2);
}

#[test]
fn old_sets_beyond_the_limit_are_deleted() {
    let mut wanted = deployment("z", 1, rolling());
    wanted.spec.as_mut().unwrap().revision_history_limit = Some(1);
    let sets = [set("x", 1, 0, 0), set("y", 2, 0, 0), set("z", 3, 1, 1)];
    assert_eq!(decide(&wanted, &sets, false).delete, [sets[0].name_any()]);
}

#[test]
fn the_largest_numbers_of_pods_are_counted() {
    let most = i32::MAX;
    let wanted = deployment("y", most, rolling());
    assert_eq!(size(&decide(&wanted, &[], false).create.unwrap()), most);
    let sets = [set("w", i64::MAX, most, most), set("x", 1, most, most), set("y", 2, 1, most)];
    let plan = decide(&wanted, &sets, false);
    assert_eq!((plan.revision, sizes(&plan).len()), (i64::MAX, 2));
    let (status, _) = super::super::status::status(&wanted, &sets, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(status.available_replicas, Some(most));
}
