//! What a job's pods lack on the nodes as they are now: pods that would have to wait for resources, and pods that fit on
//! no node.

use api::LAUNCHER;
use jiff::Timestamp;
use semantics::{Amounts, Quantity, is_gpu, subtract};

use super::roles::Role;
use super::{Finding, Room, Weight, difference, wait};
use crate::capacity::{Capacity, PODS, Room as NodeRoom};
use diagnosis::{Cause, no_node_can_take};

/// What the job's pods lack on the nodes as they are now: first the Workers, then the Launcher and others in addition to them.
pub(super) fn shortage(
    roles: &[Role<'_>],
    capacity: &Capacity,
    room: &Room,
    now: Timestamp,
) -> Option<Finding> {
    let rooms = capacity.rooms();
    if rooms.is_empty() {
        // A cluster without visible nodes may create them on demand, or hide them: its capacity is unknown.
        return None;
    }
    let short = first_short(roles, capacity, rooms)?;
    let preempts = priority_of(roles, room)
        .filter(|(_, value)| first_short(roles, capacity, capacity.rooms_beside(*value)).is_none());
    match preempts {
        Some((class, _)) => preempting(&short, class),
        None => lacking(&short, room, now),
    }
}

/// A role some of whose pods do not fit.
struct Short<'r> {
    role: &'r Role<'r>,
    /// The nodes that accept its pods, as they were before these were placed.
    nodes: Vec<NodeRoom>,
    /// What one pod takes.
    one: Amounts,
    /// How many pods fit.
    placed: usize,
}

/// Places the pods of all roles, and returns the first role with pods that do not fit.
fn first_short<'r>(
    roles: &'r [Role<'r>],
    capacity: &Capacity,
    mut rooms: Vec<NodeRoom>,
) -> Option<Short<'r>> {
    roles.iter().rev().filter(|role| role.count > 0).find_map(|role| {
        let places = capacity.taking(role.pod);
        let nodes: Vec<NodeRoom> = places.iter().filter_map(|at| rooms.get(*at).cloned()).collect();
        let mut one = role.requests.clone();
        one.insert(PODS.to_owned(), Quantity::ONE);
        let wanted = usize::try_from(role.count).unwrap_or(0);
        let placed = place(&mut rooms, &places, &one, wanted);
        (placed < wanted).then_some(Short { role, nodes, one, placed })
    })
}

/// The lowest priority among the job's pods, with its class; `None` if some of its pods do not preempt others.
fn priority_of<'r>(roles: &'r [Role<'_>], room: &Room) -> Option<(&'r str, i32)> {
    let classes = roles.iter().filter(|role| role.count > 0).map(|role| {
        let class = role.pod?.priority_class_name.as_deref()?;
        Some((class, *room.preempting.get(class)?))
    });
    classes.collect::<Option<Vec<_>>>()?.into_iter().min_by_key(|(_, value)| *value)
}

/// That a job takes what it lacks from pods of lower priority.
fn preempting(short: &Short<'_>, class: &str) -> Option<Finding> {
    let (name, each) = scarce(&short.nodes, short.role, &short.one)?;
    let free = short.nodes.iter().filter_map(|node| node.free.get(&name));
    let free = free.fold(Quantity::ZERO, |sum, more| more.plus(sum));
    Some(Finding {
        weight: Weight::Waits,
        reason: Cause::Unschedulable,
        wait: None,
        message: format!(
            "Requested {} {} but only {free} available: pods of lower priority than {class} will be preempted",
            each.times(short.role.count),
            noun(&name)
        ),
        advice: "the job starts when they have ended; those who run them lose their progress since the last checkpoint"
            .into(),
    })
}

/// Why only some pods of a role fit on the nodes that accept them.
fn lacking(short: &Short<'_>, room: &Room, now: Timestamp) -> Option<Finding> {
    let Short { role, nodes, one, placed } = short;
    let placed = *placed;
    let able: Vec<NodeRoom> = nodes.iter().filter(|node| fits(&node.whole, one)).cloned().collect();
    if able.is_empty() {
        return Some(too_large(nodes, role));
    }
    // Free resources on a node that could not hold one of these pods even when empty do not help.
    let (name, each) = scarce(&able, role, one)?;
    let (noun, wanted, roles) = (noun(&name), role.count, role.plural());
    let sum = |of: fn(&NodeRoom) -> &Amounts| {
        able.iter().filter_map(|node| of(node).get(&name)).fold(Quantity::ZERO, |sum, more| more.plus(sum))
    };
    let (asked, free, whole) = (each.times(wanted), sum(|node| &node.free), sum(|node| &node.whole));
    let mut empty: Vec<NodeRoom> =
        able.iter().map(|node| NodeRoom { free: node.whole.clone(), whole: Amounts::new() }).collect();
    let everywhere: Vec<usize> = (0..empty.len()).collect();
    let all = place(&mut empty, &everywhere, one, usize::try_from(wanted).unwrap_or(0));
    if i64::try_from(all).is_ok_and(|all| all < wanted) {
        return Some(Finding {
            weight: Weight::Waits,
            reason: Cause::Unschedulable,
            wait: None,
            message: format!(
                "Insufficient {noun}: requested {asked}, available {whole} even with nothing else running ({all} of {wanted} {roles} fit)"
            ),
            advice: format!("request at most {}, or less per {}", role.counted(all.max(1)), role.name).into(),
        });
    }
    let is_short = asked > free;
    let message = if role.name == LAUNCHER {
        format!("The Launcher requests {each} {noun}, which no node has free besides the Workers.")
    } else if is_short {
        format!("Requested {asked} {noun} but only {free} available.")
    } else {
        let why = if count_in_pieces(&able, &name, each) < wanted {
            format!("the free {noun} ({free}) are spread over several nodes")
        } else {
            format!("too few nodes have everything that a {} requests free at once", role.name)
        };
        format!("{}: {why}.", misfit(role, placed, &format!("{each} {noun}")))
    };
    let missing = if is_short { difference(asked, free) } else { each };
    let wait = wait(&name, missing, |_| true, 0, room, now);
    Some(Finding {
        weight: Weight::Waits,
        reason: Cause::Unschedulable,
        message: format!("{message} Estimated wait time: {wait}"),
        wait: Some(wait),
        advice: match placed {
            0 => format!("the job waits; to start sooner, request less per {}", role.name),
            _ => format!("the job waits; {} of this size could start now", role.counted(placed)),
        }
        .into(),
    })
}

/// Says how many pods of a role were requested, with how much each, and how many of them fit.
fn misfit(role: &Role<'_>, placed: usize, each: &str) -> String {
    if role.count == 1 {
        return format!("Requested a {} with {each}, but it does not fit", role.name);
    }
    let fit = match placed {
        0 => "none fits".to_owned(),
        1 => "only 1 fits".to_owned(),
        _ => format!("only {placed} fit"),
    };
    format!("Requested {} {} with {each} each, but {fit}", role.count, role.plural())
}

/// Reports a role whose pod would not fit on any node, even an empty one.
fn too_large(nodes: &[NodeRoom], role: &Role<'_>) -> Finding {
    let largest = |name: &String| {
        let most = nodes.iter().filter_map(|node| node.whole.get(name)).copied();
        most.fold(Quantity::ZERO, |most, one| if one > most { one } else { most })
    };
    let too_much = role
        .requests
        .iter()
        .map(|(name, each)| (name, each, largest(name)))
        .filter(|(_, each, most)| **each > *most)
        .max_by_key(|(name, ..)| is_gpu(name));
    let one = format!("a {}", role.name);
    let message = match too_much {
        _ if nodes.is_empty() => {
            no_node_can_take(&one, "none is ready and matches its node selector, affinity and tolerations")
        }
        Some((name, each, most)) if name == "memory" => format!(
            "Insufficient memory: a {} requests {}, but the largest node has {}",
            role.name,
            each.in_bytes(),
            most.in_bytes()
        ),
        Some((name, each, most)) => format!(
            "Insufficient {}: a {} requests {each}, but the largest node has {most}",
            noun(name),
            role.name
        ),
        None => no_node_can_take(&one, "none has all that it requests, even with nothing else running"),
    };
    Finding {
        weight: Weight::Waits,
        reason: Cause::Unschedulable,
        wait: None,
        message,
        advice: format!("request less per {}, or ask an administrator for larger nodes", role.name).into(),
    }
}

/// The plural noun for a resource in a sentence: `GPUs`, `bytes of memory`.
#[must_use]
pub fn noun(name: &str) -> &str {
    match name {
        "cpu" => "CPUs",
        "memory" => "bytes of memory",
        "pods" => "pod slots",
        gpu if is_gpu(gpu) => "GPUs",
        other => other,
    }
}

/// The scarcest resource, relative to the requests; GPUs come first if several are short.
fn scarce(nodes: &[NodeRoom], role: &Role<'_>, one: &Amounts) -> Option<(String, Quantity)> {
    let short = |(name, each): &(&String, &Quantity)| {
        let room = count_in_pieces(nodes, name, **each);
        (room < role.count, is_gpu(name), std::cmp::Reverse(room))
    };
    let found = one.iter().filter(|(name, each)| !each.is_zero() && *name != PODS).max_by_key(short);
    // Pods without requests can lack only pod slots.
    let found = found.or_else(|| one.get_key_value(PODS));
    found.map(|(name, each)| (name.clone(), *each))
}

/// The number of pods that fit on the nodes by this resource alone, each pod on one node.
fn count_in_pieces(nodes: &[NodeRoom], name: &str, each: Quantity) -> i64 {
    nodes.iter().filter_map(|node| node.free.get(name)?.count_of(each)).sum()
}

fn fits(free: &Amounts, one: &Amounts) -> bool {
    one.iter().all(|(name, amount)| {
        amount.is_zero()
            || free.get(name).is_some_and(|left| amount <= left)
            || (name == "pods" && !free.contains_key(name))
    })
}

/// Places up to `wanted` identical pods, each on the first of these nodes with room, and returns how many fit.
fn place(rooms: &mut [NodeRoom], places: &[usize], one: &Amounts, wanted: usize) -> usize {
    let mut placed = 0;
    for at in places {
        let Some(room) = rooms.get_mut(*at) else { continue };
        while placed < wanted && fits(&room.free, one) {
            subtract(&mut room.free, one);
            placed += 1;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::{LAUNCHER, MPIJob};
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::json;

    use crate::capacity::Capacity;
    use crate::precheck::Room;
    use crate::precheck::samples::{capacity, holder, job, node, read, told};

    #[test]
    fn free_resources_are_counted_per_node_and_the_wait_is_estimated() {
        let room = |jobs: Vec<MPIJob>| Room {
            jobs,
            capacity: capacity(&[holder("a", "8"), holder("b", "4")]),
            ..Room::default()
        };
        let eight = job(2, "4", json!({}));
        assert_eq!(
            told(&eight, &room(Vec::new())),
            [
                "Requested 8 GPUs but only 4 available. Estimated wait time: unknown (too few jobs have ended for an estimate, and the running jobs have no deadline)"
            ]
        );
        let ended = |minutes: i64| {
            let end = format!("2026-01-01T{:02}:{:02}:00Z", minutes / 60, minutes % 60);
            job(
                1,
                "1",
                json!({"phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z", "completionTime": end}),
            )
        };
        let running = job(2, "4", json!({"phase": "Running", "startTime": "2026-01-01T11:55:00Z"}));
        assert_eq!(
            told(&eight, &room(vec![ended(30), ended(30), ended(30), running.clone()])),
            [
                "Requested 8 GPUs but only 4 available. Estimated wait time: 25 minutes (from 3 jobs that have ended)"
            ]
        );
        assert_eq!(
            told(&eight, &room(vec![ended(10), ended(20), ended(40), running])),
            [
                "Requested 8 GPUs but only 4 available. Estimated wait time: 5 to 35 minutes (from 3 jobs that have ended)"
            ]
        );
    }

    #[test]
    fn a_job_that_preempts_others_does_not_wait_for_their_end() {
        let held = |priority: i32| {
            let mut pod = holder("a", "6");
            pod.spec.as_mut().unwrap().priority = Some(priority);
            let mut all = Capacity::default();
            all.add_nodes(vec![node("a", "8")]);
            all.add_pods(&[pod]);
            Room {
                capacity: Some(all),
                preempting: BTreeMap::from([("urgent".to_owned(), 1000)]),
                ..Room::default()
            }
        };
        let urgent = |class: &str| {
            let mut job = job(2, "4", json!({}));
            for replica in job.spec.mpi_replica_specs.values_mut() {
                replica.template.spec.as_mut().unwrap().priority_class_name = Some(class.to_owned());
            }
            job
        };
        let preempted =
            "Requested 8 GPUs but only 2 available: pods of lower priority than urgent will be preempted";
        assert_eq!(told(&urgent("urgent"), &held(0)), [preempted]);
        let waits = "Requested 8 GPUs but only 2 available. Estimated wait time:";
        for (class, priority) in [("urgent", 1000), ("polite", 0)] {
            let found = told(&urgent(class), &held(priority));
            assert!(found.len() == 1 && found[0].starts_with(waits), "{class}, {priority}: {found:?}");
        }
    }

    #[test]
    fn a_pod_too_large_for_every_node_is_reported() {
        let room = Room { capacity: capacity(&[]), ..Room::default() };
        assert_eq!(
            told(&job(1, "16", json!({})), &room),
            ["Insufficient GPUs: a Worker requests 16, but the largest node has 8"]
        );
        assert_eq!(
            told(&job(4, "8", json!({})), &room),
            [
                "Insufficient GPUs: requested 32, available 16 even with nothing else running (2 of 4 Workers fit)"
            ]
        );
        let pieces = Room { capacity: capacity(&[holder("a", "4"), holder("b", "4")]), ..Room::default() };
        assert!(told(&job(1, "8", json!({})), &pieces)[0].starts_with(
            "Requested a Worker with 8 GPUs, but it does not fit: the free GPUs (8) are spread over several nodes."
        ));
        assert_eq!(told(&job(2, "8", json!({})), &room), [""; 0]);
    }

    #[test]
    fn nodes_that_can_never_take_a_pod_are_not_reported_as_full() {
        let of = |nodes: Vec<Node>| {
            let mut capacity = Capacity::default();
            capacity.add_nodes(nodes);
            Room { capacity: Some(capacity), ..Room::default() }
        };
        let mut cordoned = node("a", "8");
        cordoned.spec = Some(read(json!({"unschedulable": true})));
        assert_eq!(
            told(&job(1, "1", json!({})), &of(vec![cordoned])),
            [
                "No node can take a Worker: none is ready and matches its node selector, affinity and tolerations"
            ]
        );
        let mut small = node("b", "8");
        let allocatable = small.status.as_mut().unwrap().allocatable.as_mut().unwrap();
        allocatable.insert("memory".to_owned(), read(json!("4Gi")));
        assert_eq!(
            told(&job(1, "8", json!({})), &of(vec![node("a", "4"), small])),
            ["No node can take a Worker: none has all that it requests, even with nothing else running"]
        );
    }

    #[test]
    fn a_cluster_without_visible_nodes_has_unknown_capacity() {
        let room = Room { capacity: Some(Capacity::default()), ..Room::default() };
        assert_eq!(told(&job(1, "16", json!({})), &room), [""; 0]);
    }

    #[test]
    fn the_resource_that_fitting_nodes_are_short_of_is_named() {
        let mut capacity = Capacity::default();
        let mut plain = node("c", "0");
        plain.status.as_mut().unwrap().allocatable.as_mut().unwrap().remove("nvidia.com/gpu");
        capacity.add_nodes(vec![node("a", "8"), node("b", "8"), plain]);
        let hog = |node: &str| -> Pod {
            read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [],
                "initContainers": [{"name": "i", "resources": {"requests": {"memory": "60Gi"}}}]}}))
        };
        capacity.add_pods(&[hog("a"), hog("b")]);
        let room = Room { capacity: Some(capacity), ..Room::default() };
        // The node without GPUs has memory, but these Workers cannot use it.
        let said = told(&job(2, "4", json!({})), &room);
        assert!(said[0].starts_with("Requested 16Gi bytes of memory but only 8Gi available."), "{said:?}");
    }

    #[test]
    fn the_launcher_needs_room_beside_the_workers() {
        let room = Room { capacity: capacity(&[]), ..Room::default() };
        let mut large = job(2, "8", json!({}));
        let launcher = large.spec.mpi_replica_specs.get_mut(LAUNCHER).unwrap();
        let launcher = launcher.template.spec.as_mut().unwrap();
        launcher.containers[0].resources = Some(read(json!({"requests": {"memory": "57Gi"}})));
        let said = told(&large, &room);
        let says = "The Launcher requests 57Gi bytes of memory, which no node has free besides the Workers.";
        assert!(said[0].starts_with(says), "{said:?}");
        large.spec.mpi_replica_specs.get_mut(api::WORKER).unwrap().replicas = Some(1);
        assert_eq!(told(&large, &room), [""; 0]);
    }
}
