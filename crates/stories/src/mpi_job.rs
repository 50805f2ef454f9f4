//! The job that most stories begin with: ranks that Open MPI starts on two Workers, and whatever a story adds to that.

use crate::EXAMPLES_IMAGE;

/// An MPIJob whose Launcher runs `mpirun`.
pub struct Job {
    /// Its name.
    pub name: &'static str,
    /// Its annotations, as YAML's flow style has them between the braces.
    pub annotations: &'static str,
    /// `spec.runPolicy`, in flow style.
    pub run_policy: &'static str,
    /// The Launcher's `restartPolicy`.
    pub restart_policy: &'static str,
    /// mpirun's arguments, in flow style.
    pub ranks: String,
    /// How many Workers.
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
    /// Two Workers, and a Launcher that is not tried again.
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

    /// Ranks that run a line of shell.
    pub fn shell(name: &'static str, line: &str) -> Job {
        Job::new(name, &format!("[sh, -c, {}]", quoted(line)))
    }

    /// Ranks that run a program of Python.
    pub fn python(name: &'static str, program: &str) -> Job {
        Job::new(name, &format!("[python3, -c, {}]", quoted(program)))
    }

    /// The manifest.
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

/// A text in quotes that YAML reads as it stands.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
