//! The sentences that the requirements give word for word (REQUIREMENTS.md, "Failure diagnosis with a fix and a link",
//! and neighbouring sections), each in its situation.

use super::super::facts::{ContainerFacts, Facts, Gpus, PodFacts, Terminated};
use super::super::{Diagnosis, Ending, Output, diagnose};

/// The facts, how the launcher ended and its output; then the cause, the message's exact words, and words of the
/// advice.
struct Sentence {
    facts: Facts,
    ending: Ending,
    printed: &'static str,
    cause: &'static str,
    says: &'static str,
    advises: &'static str,
}

fn worker(change: impl FnOnce(&mut PodFacts)) -> Facts {
    let mut pod = PodFacts { name: "train-worker-1".to_owned(), worker: true, ..PodFacts::default() };
    change(&mut pod);
    Facts { pods: vec![pod], ..Facts::default() }
}

fn told(reason: &str, message: &str) -> Facts {
    worker(|pod| pod.events.push((reason.to_owned(), message.to_owned())))
}

fn ended(reason: &str, exit_code: i32) -> Facts {
    worker(|pod| {
        pod.containers.push(ContainerFacts {
            name: "mpi".to_owned(),
            memory_limit: Some("16Gi".to_owned()),
            terminated: Some(Terminated { exit_code, reason: reason.to_owned(), message: String::new() }),
            ..ContainerFacts::default()
        });
    })
}

fn short_of_gpus() -> Facts {
    let no_gpus = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.";
    let mut facts = worker(|pod| {
        pod.conditions.push(("PodScheduled".to_owned(), "Unschedulable".to_owned(), no_gpus.to_owned()));
    });
    facts.gpus = Some(Gpus { requested: 32, available: 24 });
    facts
}

/// Messages of Kubernetes.
fn of_cluster() -> Vec<Sentence> {
    let of_cluster = |facts, cause, says, advises| Sentence {
        facts,
        ending: Ending::Unknown,
        printed: "",
        cause,
        says,
        advises,
    };
    vec![
        of_cluster(
            ended("OOMKilled", 137),
            "OutOfMemory",
            "exit code 137 (OOMKilled) – memory limit (16 GB) exceeded",
            "Increase memory allocation",
        ),
        of_cluster(ended("OOMKilled", 137), "OutOfMemory", "OOMKilled", "Reduce batch size"),
        of_cluster(
            told(
                "Failed",
                "Failed to pull image \"registry.example/train:1\": rpc error: code = Unknown desc = unauthorized: authentication required",
            ),
            "ImagePull",
            "Failed to pull image 'registry.example/train:1': authentication required",
            "pull secret",
        ),
        of_cluster(
            short_of_gpus(),
            "Unschedulable",
            "Insufficient GPUs: requested 32, available 24",
            "Ask for less, wait for other jobs to end, or add nodes",
        ),
        of_cluster(
            told("FailedCreate", "admission webhook denied the request: Quota exceeded: 10/10 jobs running"),
            "QuotaExceeded",
            "Quota exceeded: 10/10 jobs running",
            "ask an administrator for more quota",
        ),
        of_cluster(
            worker(|pod| {
                pod.failure = Some(("Evicted".to_owned(), "The node was low on resource: memory.".to_owned()))
            }),
            "Evicted",
            "train-worker-1 was evicted: The node was low on resource: memory.",
            "goes on from the last one",
        ),
        of_cluster(
            worker(|pod| {
                pod.lost_node = Some(("gpu-7".to_owned(), "Kubelet stopped posting node status.".to_owned()))
            }),
            "NodeLost",
            "Node gpu-7, on which train-worker-1 ran, was lost",
            "run the job again",
        ),
    ]
}

/// Messages of the launcher.
fn of_output() -> Vec<Sentence> {
    let of_output = |code, printed, cause, says, advises| Sentence {
        facts: Facts::default(),
        ending: Ending::Exited(code),
        printed,
        cause,
        says,
        advises,
    };
    let network = "MPI communication failure – check NetworkPolicies";
    vec![
        of_output(
            1,
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n",
            "GpuOutOfMemory",
            "CUDA out of memory",
            "Reduce batch size",
        ),
        of_output(
            1,
            "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:    train-worker-1\n  Remote host:   train-launcher\n",
            "CallbackBlocked",
            network,
            "NetworkPolicies",
        ),
        of_output(
            255,
            "[[1,1],1][btl_tcp_endpoint.c:793:mca_btl_tcp_endpoint_start_connect] from train-worker-1 to: train-worker-2 Unable to connect to the peer 10.77.1.5 on port 1024: No route to host\n",
            "PeerUnreachable",
            network,
            "NetworkPolicies",
        ),
        of_output(
            1,
            "Open MPI detected a mismatch in versions between two processes.  This\n  Local Open MPI version: v4.1.4\n  Peer host:              train-worker-0\n  Peer Open MPI version:  v5.0.3\n",
            "VersionMismatch",
            "Versions do not match",
            "Use one image for Launcher and Workers",
        ),
        of_output(
            3,
            "mpirun detected that one or more processes exited with non-zero status, thus causing\n\n  Process name: [[1,1],1]\n  Exit code:    3\n",
            "RankExited",
            "Rank 1 exited with code 3",
            "Read what that rank printed",
        ),
    ]
}

#[test]
fn the_required_sentences_appear_word_for_word_where_they_apply() {
    let wrong: Vec<String> = of_cluster()
        .iter()
        .chain(&of_output())
        .filter_map(|sentence| {
            let found = diagnose(&Output::from(sentence.printed), sentence.ending, &sentence.facts);
            let fits = |found: &Diagnosis| {
                found.cause.word() == sentence.cause
                    && found.message.contains(sentence.says)
                    && found.suggestion.contains(sentence.advises)
                    && found.link.ends_with(&format!("#{}", sentence.cause.to_lowercase()))
            };
            (!found.as_ref().is_some_and(fits)).then(|| format!("{:?}: {found:#?}", sentence.says))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
