//! Advice on jobs that can run but perhaps not as intended. It is given when a job is submitted, and never a reason to
//! refuse it.

use api::{ANNOTATION_MAX_GANG_RESTARTS, ANNOTATION_WORKER_FAILURE, MPIJob, TrainJob};
use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec};
use semantics::Quantity;

use crate::starter::is_starter;
use crate::validate::{ValidJob, WorkerFailure};

/// The options of a starter that give the number of ranks.
const COUNTS: [&str; 5] = ["-n", "-np", "--n", "--np", "-c"];
/// Options of elastic launchers, which get their hosts from a script and continue without a lost one.
const DISCOVERS: [&str; 6] = [
    "--host-discovery-script",
    "--min-np",
    "--max-np",
    "--min-num-proc",
    "--max-num-proc",
    "--elastic-timeout",
];
/// The name of that script in the job's pods.
const DISCOVERY_SCRIPT: &str = "discover_hosts.sh";
/// Options that allow more ranks than slots.
const OVERSUBSCRIBES: [&str; 4] = ["--oversubscribe", "-oversubscribe", ":oversubscribe", "OVERSUBSCRIBE"];

/// The CPU limit of a Worker below which the start of ranks is slow: MPI's daemon and the launch agent need some tenths of
/// a second of CPU then. With a limit of 10m, a job of 100 Workers took 52 s where it took 24 s without.
const SLOW_START_MILLIS: i128 = 100;

/// Returns what a user should know about a job before it runs, one sentence each.
#[must_use]
pub fn advise(job: &ValidJob) -> Vec<String> {
    let mut advice = Vec::new();
    advice.extend(too_many_ranks(job));
    advice.extend(elastic_advice(job));
    if job.worker_failure == Some(WorkerFailure::Restart) && job.max_gang_restarts == 0 {
        advice.push(format!(
            "metadata.annotations[{ANNOTATION_WORKER_FAILURE}]: \"restart\" has no effect without {ANNOTATION_MAX_GANG_RESTARTS}"
        ));
    }
    advice.extend(hidden_gpus(job));
    let launcher = [("Launcher", &job.launcher)];
    let replicas = launcher.into_iter().chain(job.workers.as_ref().map(|workers| ("Worker", workers)));
    for (role, replica) in replicas {
        advice.extend(halved_in_template(role, &replica.template));
        let containers = replica.template.spec.iter().flat_map(|pod| &pod.containers);
        for (at, container) in containers.enumerate() {
            let path = format!("spec.mpiReplicaSpecs[{role}].template.spec.containers[{at}]");
            let image = container.image.as_deref().unwrap_or_default();
            if has_moving_tag(image) {
                advice.push(format!(
                    "{path}.image: {image:?} may be a different image on each node or at a later time; use a tag or a digest"
                ));
            }
            let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
            if at == 0 && role == "Worker" && limits.is_none_or(std::collections::BTreeMap::is_empty) {
                advice.push(format!(
                    "{path}.resources.limits: not set; the ranks may take memory and CPUs from other pods on the node"
                ));
            }
            let cpu = limits.and_then(|limits| limits.get("cpu")).and_then(|cpu| Quantity::read(&cpu.0));
            if let Some(cpu) =
                cpu.filter(|cpu| at == 0 && role == "Worker" && cpu.millis() < SLOW_START_MILLIS)
            {
                advice.push(format!(
                    "{path}.resources.limits.cpu: {cpu} is less than MPI's daemon needs while it starts ranks, so the job \
                     starts slowly; a limit of 100m is enough, and the request may stay as it is"
                ));
            }
        }
    }
    advice
}

/// What the programs of a job get differently than it is written, one sentence each.
#[must_use]
pub fn surprises(job: &MPIJob) -> Vec<String> {
    let replicas = &job.spec.mpi_replica_specs;
    replicas.iter().flat_map(|(role, replica)| halved_in_template(role, &replica.template)).collect()
}

/// The same of a TrainJob.
#[must_use]
pub fn trainjob_surprises(job: &TrainJob) -> Vec<String> {
    let Some(trainer) = &job.spec.trainer else { return Vec::new() };
    let words = [
        ("command", trainer.command.as_deref().unwrap_or_default()),
        ("args", trainer.args.as_deref().unwrap_or_default()),
    ];
    halved_dollars("spec.trainer", words, &trainer.env)
}

fn halved_in_template(role: &str, template: &PodTemplateSpec) -> Vec<String> {
    let lists = template.spec.iter().flat_map(|pod| {
        [("initContainers", pod.init_containers.as_deref()), ("containers", Some(&pod.containers[..]))]
    });
    let containers = lists.flat_map(|(list, containers)| {
        containers.unwrap_or_default().iter().enumerate().map(move |(at, container)| (list, at, container))
    });
    let found = containers.flat_map(|(list, at, container)| {
        let path = format!("spec.mpiReplicaSpecs[{role}].template.spec.{list}[{at}]");
        let words = [
            ("command", container.command.as_deref().unwrap_or_default()),
            ("args", container.args.as_deref().unwrap_or_default()),
        ];
        halved_dollars(&path, words, container.env.as_deref().unwrap_or_default())
    });
    found.collect()
}

/// Words and values in which Kubernetes makes one `$` of two (`k8s.io/kubernetes`,
/// `third_party/forked/golang/expansion/expand.go`). `$$(NAME)` is how one keeps `$(NAME)` from being replaced, so it is meant.
/// A value may be a secret and is not quoted.
fn halved_dollars(path: &str, words: [(&'static str, &[String]); 2], env: &[EnvVar]) -> Vec<String> {
    let is_halved = |text: &str| text.match_indices("$$").any(|(at, _)| !text[at..].starts_with("$$("));
    let of_words = words.into_iter().filter(|(_, words)| words.iter().any(|word| is_halved(word)));
    let of_words = of_words.map(|(field, _)| field.to_owned());
    let of_env = env.iter().filter(|variable| variable.value.as_deref().is_some_and(is_halved));
    let of_env = of_env.map(|variable| format!("env[{}].value", variable.name));
    let told = |field| {
        format!("{path}.{field}: Kubernetes makes one $ of $$ before the program starts; write $$$$ for two")
    };
    of_words.chain(of_env).map(told).collect()
}

/// Whether an image's name has the tag `latest`, or no tag at all.
fn has_moving_tag(image: &str) -> bool {
    if image.is_empty() || image.contains('@') {
        return false;
    }
    // A colon before the last slash belongs to the registry's port.
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Advises how a job can continue without a failed Worker, if its Launcher discovers hosts while it runs and the job
/// does not specify what a failed Worker does.
pub(crate) fn elastic_advice(job: &ValidJob) -> Option<String> {
    let discovers = |word: &&str| {
        let option = word.split_once('=').map_or(*word, |(option, _)| option);
        DISCOVERS.contains(&option) || word.ends_with(DISCOVERY_SCRIPT)
    };
    let found = launcher_words(job).into_iter().find(discovers).filter(|_| job.worker_failure.is_none())?;
    Some(format!(
        "the Launcher discovers its hosts ({found}), but a failed Worker ends the job: for an elastic program, set the \
         annotation {ANNOTATION_WORKER_FAILURE}: tolerate"
    ))
}

/// The words of the Launcher's command.
fn launcher_words(job: &ValidJob) -> Vec<&str> {
    let container = job.launcher.template.spec.as_ref().and_then(|pod| pod.containers.first());
    let arguments = container.into_iter().flat_map(|container| [&container.command, &container.args]);
    arguments.flatten().flatten().flat_map(|argument| argument.split_whitespace()).collect()
}

/// Whether the Launcher's command starts ranks, as far as it shows: nothing of a script, or of an image's own command.
pub(crate) fn starts_ranks(job: &ValidJob) -> Option<bool> {
    let words = launcher_words(job);
    let names: Vec<&str> = words.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
    let is_script = |name: &&str| name.contains(".sh") || SHELLS.contains(name) || name.ends_with("run");
    if names.iter().any(|name| is_starter(name) || name.contains("mpirun") || name.contains("mpiexec")) {
        return Some(true);
    }
    (!names.is_empty() && !names.iter().any(is_script)).then_some(false)
}

/// Programs whose arguments may be commands.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "make"];

/// A Launcher that takes no ranks does not see its GPUs, as upstream has it.
fn hidden_gpus(job: &ValidJob) -> Option<String> {
    let pod = job.launcher.template.spec.as_ref().filter(|_| !job.launcher_as_worker)?;
    let first = pod.containers.first()?;
    let resources = first.resources.as_ref()?;
    let mut amounts = resources.limits.iter().chain(&resources.requests).flatten();
    let (name, amount) = amounts.find(|(name, amount)| {
        semantics::is_gpu(name) && Quantity::read(&amount.0).is_some_and(|amount| amount.millis() > 0)
    })?;
    Some(format!(
        "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].resources: {name}: {} is reserved and nobody else can use \
         it, but the Launcher does not see it unless spec.runLauncherAsWorker is set",
        amount.0
    ))
}

fn too_many_ranks(job: &ValidJob) -> Option<String> {
    let words = launcher_words(job);
    let start = words.iter().position(|word| is_starter(word))?;
    let options = &words[start + 1..];
    if options.iter().any(|word| OVERSUBSCRIBES.iter().any(|allows| word.contains(allows))) {
        return None;
    }
    let count = options.iter().position(|word| COUNTS.contains(word))?;
    let ranks: u64 = options.get(count + 1)?.parse().ok()?;
    let hosts = job.worker_count() + usize::from(job.launcher_as_worker);
    let slots = u64::try_from(hosts).ok()? * u64::try_from(job.slots).ok()?;
    (ranks > slots && hosts > 0).then(|| {
        format!(
            "spec.mpiReplicaSpecs[Launcher]: {} requests {ranks} ranks, but there are only {slots} slots (hosts: {hosts}, slots per host: {})",
            words[start], job.slots
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(image: &str, args: &[&str], limits: bool) -> Vec<String> {
        advice_of(image, args, limits.then_some("1"))
    }

    fn advice_of(image: &str, args: &[&str], cpu: Option<&str>) -> Vec<String> {
        let resources = cpu.map_or_else(
            || serde_json::json!({}),
            |cpu| serde_json::json!({ "requests": { "cpu": "1m" }, "limits": { "cpu": cpu } }),
        );
        let pod = |args: &[&str]| {
            serde_json::json!({ "template": { "spec": { "containers": [
                { "name": "main", "image": image, "args": args, "resources": resources }] } } })
        };
        let mut worker = pod(&[]);
        worker["replicas"] = serde_json::json!(2);
        let job = serde_json::json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": "pi" },
            "spec": { "slotsPerWorker": 2, "mpiReplicaSpecs": { "Launcher": pod(args), "Worker": worker } } });
        let job: api::MPIJob = serde_json::from_value(job).unwrap();
        advise(&crate::validate(&job).unwrap())
    }

    #[test]
    fn a_job_without_surprises_gets_no_advice() {
        assert_eq!(advice("mpi:1", &["mpirun", "-np", "4", "pi", "-n", "9"], true), Vec::<String>::new());
        assert_eq!(advice("host:5000/mpi@sha256:0", &["sh", "-c", "true"], true), Vec::<String>::new());
        assert_eq!(advice("mpi:1", &["mpirun --oversubscribe -np 9 pi"], true), Vec::<String>::new());
    }

    #[test]
    fn dollars_that_kubernetes_halves_are_reported() {
        let halved = "Kubernetes makes one $ of $$ before the program starts; write $$$$ for two";
        let args = "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].args";
        assert_eq!(advice("mpi:1", &["sh", "-c", "echo $$"], true), [format!("{args}: {halved}")]);
        assert_eq!(advice("mpi:1", &["sh", "-c", "echo $(hostname) $HOME $1"], true), Vec::<String>::new());
        assert_eq!(
            advice("mpi:1", &["sh", "-c", "echo $$(NAME)"], true),
            Vec::<String>::new(),
            "it is escaped"
        );
        let env = serde_json::json!([{ "name": "A", "value": "b" }, { "name": "WORD", "value": "pa$$" }]);
        let env: Vec<EnvVar> = serde_json::from_value(env).unwrap();
        let told = halved_dollars("main", [("command", &[]), ("args", &[])], &env);
        assert_eq!(told, [format!("main.env[WORD].value: {halved}")], "the value is not quoted");
    }

    #[test]
    fn a_gpu_that_the_launcher_does_not_see_is_reported() {
        let told = |as_worker: bool| {
            let pod = |gpus: i32| {
                serde_json::json!({ "template": { "spec": { "containers": [{ "name": "main",
                "image": "mpi:1", "resources": { "limits": { "nvidia.com/gpu": gpus, "cpu": 1 } } }] } }, "replicas": 1 })
            };
            let job = serde_json::json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": { "name": "pi" }, "spec": { "runLauncherAsWorker": as_worker,
                    "mpiReplicaSpecs": { "Launcher": pod(1), "Worker": pod(2) } } });
            advise(&crate::validate(&serde_json::from_value(job).unwrap()).unwrap())
        };
        assert_eq!(told(true), Vec::<String>::new());
        assert!(told(false)[0].contains("nvidia.com/gpu: 1 is reserved"), "{:?}", told(false));
    }

    #[test]
    fn more_ranks_than_slots_are_reported() {
        let told = advice("mpi:1", &["sh", "-c", "exec /usr/bin/mpirun -x A -np 5 pi"], true);
        assert_eq!(
            told,
            [
                "spec.mpiReplicaSpecs[Launcher]: /usr/bin/mpirun requests 5 ranks, but there are only 4 slots (hosts: 2, slots per host: 2)"
            ]
        );
    }

    #[test]
    fn a_launcher_that_discovers_its_hosts_is_advised_to_tolerate_failures() {
        let elastic = [
            &["horovodrun", "--host-discovery-script", "/etc/mpi/discover_hosts.sh", "-np", "2"][..],
            &["sh", "-c", "horovodrun --min-np=2 --max-np 4 train"][..],
        ];
        for args in elastic {
            let told = advice("mpi:1", args, true);
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(told[0].contains("training.opendatahub.io/worker-failure: tolerate"), "{told:?}");
        }
    }

    #[test]
    fn a_cpu_limit_that_slows_the_start_is_reported_for_workers() {
        let told = advice_of("mpi:1", &[], Some("10m"));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].contains("[Worker]") && told[0].contains("limits.cpu: 10m"), "{told:?}");
        assert_eq!(advice_of("mpi:1", &[], Some("100m")), Vec::<String>::new());
    }

    #[test]
    fn missing_limits_and_moving_tags_are_reported() {
        let told = advice("host:5000/mpi", &[], false);
        assert_eq!(told.iter().filter(|told| told.contains(".image")).count(), 2, "{told:?}");
        assert_eq!(
            told.iter().filter(|told| told.contains("[Worker]") && told.contains("limits")).count(),
            1
        );
        assert_eq!(advice("mpi:latest", &[], true).len(), 2);
    }
}
