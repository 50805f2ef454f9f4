//! What the next run of a program should request, by what its former runs really used. Pure.
//!
//! Jobs run the same program if they are of the same kind and, role by role, the first container has the same image,
//! command and arguments; a TrainJob's runtime counts, too. The number of Workers, variables and requests may differ.
//! [`advise`] needs [`LEAST_RUNS`] runs that succeeded and were sampled, and without them gives no figure: the highest use
//! of any pod, with [`HEAD_ROOM_PERCENT`] in addition, rounded up to an amount that people write.

use std::collections::BTreeMap;

use semantics::{Quantity, pod_requests};
use serde_json::{Value, json};

use crate::Kind;
use crate::availability::Resources;

/// The least number of runs that advice rests on.
pub const LEAST_RUNS: usize = 3;
/// What is suggested above the highest use.
pub const HEAD_ROOM_PERCENT: u64 = 20;
/// A request of more than this many times the highest use is too much.
const TOO_MANY_TIMES: u64 = 2;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// What a job requests for each pod of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    /// Memory in bytes, if it requests any.
    pub memory_bytes: Option<u64>,
    /// CPU in thousandths of a core, if it requests any.
    pub cpu_millis: Option<u64>,
}

/// The program that a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Equal for all jobs that run the same program.
    pub identity: String,
    /// The image of the Workers.
    pub image: String,
    /// What is requested for each pod, by the role in its labels. Only pods with one container are judged: of others it is
    /// unknown which container uses how much.
    pub requested: BTreeMap<String, Requested>,
}

/// Returns the program that a job runs; `None` if its spec names none.
pub fn program(kind: Kind, spec: &Value) -> Option<Program> {
    match kind.replicas_field() {
        Some(field) => of_replicas(kind, spec.get(field)?),
        None => of_trainer(kind, spec),
    }
}

fn of_replicas(kind: Kind, replicas: &Value) -> Option<Program> {
    let (mut parts, mut requested, mut images) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    for (role, replica) in replicas.as_object()? {
        let Some(pod) = replica.pointer("/template/spec") else { continue };
        let Some(containers) = pod["containers"].as_array() else { continue };
        let Some(first) = containers.first() else { continue };
        parts.push(json!([role, first["image"], first["command"], first["args"]]));
        images.insert(role.as_str(), first["image"].as_str().unwrap_or_default());
        if containers.len() == 1 {
            requested.insert(role.to_lowercase(), requests(pod));
        }
    }
    let image = images.get("Worker").or_else(|| images.values().next())?;
    Some(Program { identity: json!([kind.name(), parts]).to_string(), image: (*image).to_owned(), requested })
}

/// A TrainJob's nodes are its Workers. What it does not request, its runtime may.
fn of_trainer(kind: Kind, spec: &Value) -> Option<Program> {
    let (runtime, trainer) = (spec.get("runtimeRef")?, &spec["trainer"]);
    let pod = json!({ "containers": [{ "resources": trainer["resourcesPerNode"] }] });
    let parts = json!([kind.name(), runtime, trainer["image"], trainer["command"], trainer["args"]]);
    Some(Program {
        identity: parts.to_string(),
        image: trainer["image"].as_str().unwrap_or_default().to_owned(),
        requested: BTreeMap::from([("worker".to_owned(), requests(&pod))]),
    })
}

fn requests(pod: &Value) -> Requested {
    let amounts = pod_requests(pod);
    let amount = |name: &str, of: fn(&Quantity) -> i128| {
        amounts.get(name).and_then(|amount| u64::try_from(of(amount)).ok()).filter(|amount| *amount > 0)
    };
    Requested { memory_bytes: amount("memory", Quantity::units), cpu_millis: amount("cpu", Quantity::millis) }
}

/// What the pods of a role used in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// The most memory of any pod, in bytes.
    pub memory_bytes: u64,
    /// The most CPU of any pod in thousandths of a core, as the mean of a minute.
    pub cpu_millis: u64,
    /// The CPU of all samples together, and their number.
    pub cpu_millis_sum: u64,
    /// The number of samples.
    pub samples: u64,
}

/// How a request compares with what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerdict {
    /// Runs used more.
    TooLittle,
    /// No run used half of it.
    TooMuch,
    /// It is right.
    Fits,
    /// Nothing is requested.
    NotSet,
    /// Too few runs were sampled.
    Unknown,
}

/// A request for a resource, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// How it compares.
    pub verdict: RequestVerdict,
    /// What is requested, as a quantity; empty if nothing is.
    pub requested: String,
    /// The highest use, as a quantity; empty if it is unknown.
    pub peak: String,
    /// What to request instead, as a quantity; empty if the request can stay or too little is known.
    pub suggested: String,
    /// The same as a sentence.
    pub message: String,
}

/// Advice about the pods of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleAdvice {
    /// The role: `Worker`, `Launcher`.
    pub role: String,
    /// The number of runs that were sampled.
    pub runs: usize,
    /// The number of their samples.
    pub samples: u64,
    /// The mean CPU of a pod as a quantity; empty if it is unknown.
    pub mean_cpu: String,
    /// About memory.
    pub memory: Judged,
    /// About CPU.
    pub cpu: Judged,
}

/// Judges what a job requests by what succeeded runs of its program used, by role.
pub fn advise(runs: &[BTreeMap<String, Used>], requested: &BTreeMap<String, Requested>) -> Vec<RoleAdvice> {
    requested.iter().map(|(role, requested)| of_role(role, runs, *requested)).collect()
}

fn of_role(role: &str, runs: &[BTreeMap<String, Used>], requested: Requested) -> RoleAdvice {
    let used: Vec<Used> =
        runs.iter().filter_map(|run| run.get(role)).filter(|used| used.samples > 0).copied().collect();
    let name = shown(role);
    let most = |of: fn(&Used) -> u64| used.iter().map(of).max().unwrap_or(0);
    let judged = |resource: &Resource, requested: Option<u64>, peak: u64| {
        judge(resource, &name, requested, (used.len() >= LEAST_RUNS).then_some(peak), used.len())
    };
    let samples = used.iter().map(|used| used.samples).fold(0, u64::saturating_add);
    let sum = used.iter().map(|used| used.cpu_millis_sum).fold(0, u64::saturating_add);
    RoleAdvice {
        runs: used.len(),
        samples,
        mean_cpu: sum.checked_div(samples).map(cpu).unwrap_or_default(),
        memory: judged(&MEMORY, requested.memory_bytes, most(|used| used.memory_bytes)),
        cpu: judged(&CPU, requested.cpu_millis, most(|used| used.cpu_millis)),
        role: name,
    }
}

/// The role as it is shown: `worker` is a Worker.
fn shown(role: &str) -> String {
    if role == "ps" {
        return "PS".to_owned();
    }
    let mut letters = role.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What differs between memory and CPU.
struct Resource {
    name: &'static str,
    /// The amounts that people write: below the first, multiples of the second.
    steps: [(u64, u64); 3],
    /// An amount as a quantity, and as people say it.
    quantity: fn(u64) -> String,
    words: fn(u64) -> String,
}

const MEMORY: Resource = Resource {
    name: "memory",
    steps: [(GIB, 64 * MIB), (4 * GIB, 256 * MIB), (u64::MAX, GIB)],
    quantity: memory,
    words: |bytes| Quantity::read(&bytes.to_string()).map(|bytes| bytes.in_bytes()).unwrap_or_default(),
};
const CPU: Resource =
    Resource { name: "CPU", steps: [(1000, 100), (4000, 500), (u64::MAX, 1000)], quantity: cpu, words: cpu };

fn memory(memory_bytes: u64) -> String {
    Resources { memory_bytes, ..Resources::default() }.memory()
}

fn cpu(cpu_millis: u64) -> String {
    Resources { cpu_millis, ..Resources::default() }.cpu()
}

/// The highest use with head-room, rounded up.
fn suggest(resource: &Resource, peak: u64) -> u64 {
    let wanted = peak.saturating_add(peak.saturating_mul(HEAD_ROOM_PERCENT).div_ceil(100)).max(1);
    let step = resource.steps.iter().find(|(below, _)| wanted < *below).map_or(1, |(_, step)| *step);
    wanted.checked_next_multiple_of(step).unwrap_or(wanted)
}

fn judge(resource: &Resource, role: &str, requested: Option<u64>, peak: Option<u64>, runs: usize) -> Judged {
    let Resource { name, quantity, words, .. } = resource;
    let shown = requested.map(quantity).unwrap_or_default();
    let Some(peak) = peak else {
        let message = format!(
            "{name} of a {role}: unknown; {runs} of the {LEAST_RUNS} runs needed succeeded and were sampled"
        );
        let (peak, suggested) = (String::new(), String::new());
        return Judged { verdict: RequestVerdict::Unknown, requested: shown, peak, suggested, message };
    };
    let better = suggest(resource, peak);
    let verdict = match requested {
        None => RequestVerdict::NotSet,
        Some(requested) if requested < peak => RequestVerdict::TooLittle,
        Some(requested) if requested > peak.saturating_mul(TOO_MANY_TIMES) && requested > better => {
            RequestVerdict::TooMuch
        }
        Some(_) => RequestVerdict::Fits,
    };
    let used = format!("{runs} runs used at most {}", words(peak));
    let message = match verdict {
        RequestVerdict::NotSet => {
            format!("No {name} is requested for a {role}; {used}. Request {}.", quantity(better))
        }
        RequestVerdict::TooLittle => {
            format!("{shown} of {name} for a {role} is too little: {used}. Request {}.", quantity(better))
        }
        RequestVerdict::TooMuch => {
            format!(
                "{shown} of {name} for a {role} is more than twice what is used: {used}. {} is enough.",
                quantity(better)
            )
        }
        RequestVerdict::Fits | RequestVerdict::Unknown => {
            format!("{shown} of {name} for a {role} fits: {used}.")
        }
    };
    let suggested = if verdict == RequestVerdict::Fits { String::new() } else { quantity(better) };
    Judged { verdict, requested: shown, peak: quantity(peak), suggested, message }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mpijob(workers: u32, worker: &Value, image: &str) -> Value {
        let pod = |container: Value| json!({ "template": { "spec": { "containers": [container] } } });
        let mut workers_spec = pod(json!({ "name": "w", "image": image, "resources": worker }));
        workers_spec["replicas"] = workers.into();
        json!({ "mpiReplicaSpecs": { "Worker": workers_spec,
            "Launcher": pod(json!({ "name": "l", "image": image, "command": ["mpirun", "python", "train.py"] })) } })
    }

    fn runs(memory_mib: &[u64]) -> Vec<BTreeMap<String, Used>> {
        let of =
            |mib: &u64| Used { memory_bytes: mib * MIB, cpu_millis: 700, cpu_millis_sum: 2000, samples: 4 };
        memory_mib.iter().map(|mib| BTreeMap::from([("worker".to_owned(), of(mib))])).collect()
    }

    fn memory_of(runs: &[BTreeMap<String, Used>], requested: Option<u64>) -> Judged {
        let requested = Requested { memory_bytes: requested, cpu_millis: None };
        advise(runs, &BTreeMap::from([("worker".to_owned(), requested)])).remove(0).memory
    }

    #[test]
    fn the_same_image_and_command_are_the_same_program_whatever_is_requested() {
        let of = |workers: u32, limits: Value, image: &str| {
            program(Kind::MpiJob, &mpijob(workers, &json!({ "limits": limits }), image)).unwrap()
        };
        let (one, two) =
            (of(2, json!({ "memory": "1Gi", "cpu": "1500m" }), "train:1"), of(8, json!({}), "train:1"));
        assert_eq!((&one.identity, one.image.as_str()), (&two.identity, "train:1"));
        assert_ne!(one.identity, of(2, json!({}), "train:2").identity);
        let expected = Requested { memory_bytes: Some(GIB), cpu_millis: Some(1500) };
        assert_eq!((one.requested["worker"], two.requested["worker"]), (expected, Requested::default()));
        assert_eq!(one.requested.keys().collect::<Vec<_>>(), ["launcher", "worker"]);
    }

    #[test]
    fn a_trainjob_is_known_by_its_runtime_and_a_pod_of_two_containers_is_not_judged() {
        let trainjob = json!({ "runtimeRef": { "name": "torch" },
            "trainer": { "command": ["python"], "resourcesPerNode": { "requests": { "memory": "2Gi" } } } });
        let found = program(Kind::TrainJob, &trainjob).unwrap();
        assert_eq!(found.requested["worker"].memory_bytes, Some(2 * GIB));
        let mut two = mpijob(1, &json!({}), "train:1");
        let more = json!({ "name": "side", "image": "side:1" });
        two["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"].as_array_mut().unwrap().push(more);
        assert!(!program(Kind::MpiJob, &two).unwrap().requested.contains_key("worker"));
        assert_eq!(program(Kind::MpiJob, &json!({})), None);
        assert_eq!(program(Kind::TrainJob, &json!({})), None);
    }

    #[test]
    fn a_request_is_judged_by_the_highest_use() {
        let used = runs(&[900, 1000, 950]);
        let too_much = memory_of(&used, Some(16 * GIB));
        assert_eq!((too_much.verdict, too_much.suggested.as_str()), (RequestVerdict::TooMuch, "1280Mi"));
        assert_eq!(
            too_much.message,
            "16Gi of memory for a Worker is more than twice what is used: 3 runs used at most 1000Mi. 1280Mi is enough."
        );
        let too_little = memory_of(&used, Some(512 * MIB));
        assert_eq!((too_little.verdict, too_little.requested.as_str()), (RequestVerdict::TooLittle, "512Mi"));
        let fits = memory_of(&used, Some(2 * GIB - 60 * MIB));
        assert_eq!((fits.verdict, fits.suggested.as_str()), (RequestVerdict::Fits, ""));
        assert_eq!(memory_of(&used, None).verdict, RequestVerdict::NotSet);
    }

    #[test]
    fn two_runs_are_too_few_and_runs_that_were_not_sampled_do_not_count() {
        let mut used = runs(&[900, 1000, 950]);
        used[2].get_mut("worker").unwrap().samples = 0;
        let unknown = memory_of(&used, Some(GIB));
        assert_eq!(
            (unknown.verdict, unknown.suggested.as_str(), unknown.peak.as_str()),
            (RequestVerdict::Unknown, "", "")
        );
        assert_eq!(
            unknown.message,
            "memory of a Worker: unknown; 2 of the 3 runs needed succeeded and were sampled"
        );
    }

    #[test]
    fn cpu_is_suggested_in_cores_and_its_mean_is_that_of_all_samples() {
        let requested = Requested { memory_bytes: None, cpu_millis: Some(8000) };
        let advice = advise(&runs(&[1, 1, 1]), &BTreeMap::from([("worker".to_owned(), requested)])).remove(0);
        assert_eq!((advice.cpu.verdict, advice.cpu.suggested.as_str()), (RequestVerdict::TooMuch, "900m"));
        assert_eq!((advice.mean_cpu.as_str(), advice.samples, advice.runs), ("500m", 12, 3));
    }

    #[test]
    fn a_small_request_that_cannot_be_written_smaller_fits() {
        let used = runs(&[1, 2, 3]);
        assert_eq!(memory_of(&used, Some(64 * MIB)).verdict, RequestVerdict::Fits);
    }

    proptest! {
        #[test]
        fn a_suggestion_is_never_below_the_use_and_never_too_much(peak in 1_u64..1 << 50) {
            for resource in [&MEMORY, &CPU] {
                let suggested = suggest(resource, peak);
                prop_assert!(suggested > peak);
                let again = judge(resource, "Worker", Some(suggested), Some(peak), LEAST_RUNS);
                prop_assert_eq!(again.verdict, RequestVerdict::Fits);
            }
        }
    }
}
