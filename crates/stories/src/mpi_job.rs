//! The job of most stories: ranks that Open MPI starts on two Workers, plus fields that a story sets.

use crate::EXAMPLES_IMAGE;

/// An MPIJob whose Launcher runs `mpirun`.
pub struct Job {
    /// Its name.
    pub name: &'static str,
    /// Its annotations, in YAML's flow style without the braces.
    pub annotations: &'static str,
    /// `spec.runPolicy`, in flow style.
    pub run_policy: &'static str,
    /// The Launcher's `restartPolicy`.
    pub restart_policy: &'static str,
    /// mpirun's arguments, in flow style.
    pub ranks: String,
    /// The number of Workers.
    pub workers: usize,
    /// One more field of the Launcher's container.
    pub launcher: String,
    /// One more field of the Launcher's pod.
    pub launcher_pod: String,
    /// One more field of the Workers' containers.
    pub worker: String,
    /// One more field of the Workers' pods.
    pub worker_pod: String,
}

impl Job {
    /// Creates a job with two Workers and a Launcher that is not retried.
    pub fn new(name: &'static str, ranks: &str) -> Job {
        Job {
            name,
            annotations: "",
            run_policy: "{backoffLimit: 0}",
            restart_policy: "Never",
            ranks: ranks.to_owned(),
            workers: 2,
            launcher: String::new(),
            launcher_pod: String::new(),
            worker: String::new(),
            worker_pod: String::new(),
        }
    }

    /// Creates a job whose ranks run a line of shell.
    pub fn shell(name: &'static str, line: &str) -> Job {
        Job::new(name, &format!("[sh, -c, {}]", quoted(line)))
    }

    /// Creates a job whose ranks run a Python program.
    pub fn python(name: &'static str, program: &str) -> Job {
        Job::new(name, &format!("[python3, -c, {}]", quoted(program)))
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> String {
        let Job { name, annotations, run_policy, restart_policy, ranks, workers, .. } = self;
        let Job { launcher, launcher_pod, worker, worker_pod, .. } = self;
        format!(
            "apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: {name}
  annotations: {{{annotations}}}
spec:
  runPolicy: {run_policy}
  mpiReplicaSpecs:
    Launcher:
      restartPolicy: {restart_policy}
      template:
        spec:
          {launcher_pod}
          containers:
          - name: mpi
            image: {EXAMPLES_IMAGE}
            command: [mpirun, --allow-run-as-root]
            args: {ranks}
            {launcher}
    Worker:
      replicas: {workers}
      template:
        spec:
          {worker_pod}
          containers:
          - name: mpi
            image: {EXAMPLES_IMAGE}
            {worker}
"
        )
    }
}

/// Quotes a text for YAML.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
