// Where each kind of job keeps what the form shows: the paths of the form's fields in its manifest.

import { stringify } from "yaml";
import type { Kind } from "../api/client";
import builder from "./builder.json";

export type Path = readonly (string | number)[];

export type Shape = {
  kind: Kind;
  /** The number of Workers. */
  workers: Path;
  /** Images: the first is shown, all are written. */
  images: Path[];
  /** The command; `args`, if there are any, are shown and written as its end. */
  command: Path;
  args: Path;
  /** The Workers' resources: a map with `limits` and `requests`. */
  resources: Path;
  /** Lists of environment variables: the first is shown, all are written. */
  env: Path[];
  /** Pod specifications: for volumes, nodes, tolerations and priority. */
  pods: Path[];
  slots?: Path;
  launcherResources?: Path;
  runtime?: Path;
  restartPolicy?: Path;
  cleanPodPolicy?: Path;
  deadline?: Path;
  retries?: Path;
  suspend: Path;
};

const mpiPod = (role: string): Path => ["spec", "mpiReplicaSpecs", role, "template", "spec"];
const container = (pod: Path): Path => [...pod, "containers", 0];
const replicas = (specs: string, role: string): Path => ["spec", specs, role];
const podOf = (specs: string, role: string): Path => [...replicas(specs, role), "template", "spec"];

const mpijob: Shape = {
  kind: "mpijob",
  workers: ["spec", "mpiReplicaSpecs", "Worker", "replicas"],
  images: [
    [...container(mpiPod("Worker")), "image"],
    [...container(mpiPod("Launcher")), "image"],
  ],
  command: [...container(mpiPod("Launcher")), "command"],
  args: [...container(mpiPod("Launcher")), "args"],
  resources: [...container(mpiPod("Worker")), "resources"],
  env: [
    [...container(mpiPod("Launcher")), "env"],
    [...container(mpiPod("Worker")), "env"],
  ],
  pods: [mpiPod("Worker"), mpiPod("Launcher")],
  slots: ["spec", "slotsPerWorker"],
  launcherResources: [...container(mpiPod("Launcher")), "resources"],
  restartPolicy: ["spec", "mpiReplicaSpecs", "Worker", "restartPolicy"],
  cleanPodPolicy: ["spec", "runPolicy", "cleanPodPolicy"],
  deadline: ["spec", "runPolicy", "activeDeadlineSeconds"],
  retries: ["spec", "runPolicy", "backoffLimit"],
  suspend: ["spec", "runPolicy", "suspend"],
};

/** PyTorchJob and TFJob: `first` is the role beside the Workers. */
function trainingOperator(kind: Kind, specs: string, first: string): Shape {
  const worker = container(podOf(specs, "Worker"));
  const other = container(podOf(specs, first));
  return {
    kind,
    workers: [...replicas(specs, "Worker"), "replicas"],
    images: [
      [...worker, "image"],
      [...other, "image"],
    ],
    command: [...worker, "command"],
    args: [...worker, "args"],
    resources: [...worker, "resources"],
    env: [
      [...worker, "env"],
      [...other, "env"],
    ],
    pods: [podOf(specs, "Worker"), podOf(specs, first)],
    restartPolicy: [...replicas(specs, "Worker"), "restartPolicy"],
    cleanPodPolicy: ["spec", "runPolicy", "cleanPodPolicy"],
    deadline: ["spec", "runPolicy", "activeDeadlineSeconds"],
    retries: ["spec", "runPolicy", "backoffLimit"],
    suspend: ["spec", "runPolicy", "suspend"],
  };
}

const trainjob: Shape = {
  kind: "trainjob",
  workers: ["spec", "trainer", "numNodes"],
  images: [["spec", "trainer", "image"]],
  command: ["spec", "trainer", "command"],
  args: ["spec", "trainer", "args"],
  resources: ["spec", "trainer", "resourcesPerNode"],
  env: [["spec", "trainer", "env"]],
  pods: [],
  slots: ["spec", "trainer", "numProcPerNode"],
  runtime: ["spec", "runtimeRef", "name"],
  suspend: ["spec", "suspend"],
};

export const shapes: Record<Kind, Shape> = {
  mpijob,
  trainjob,
  pytorchjob: trainingOperator("pytorchjob", "pytorchReplicaSpecs", "Master"),
  tfjob: trainingOperator("tfjob", "tfReplicaSpecs", "Chief"),
};

const worker = (name: string) => `
      replicas: 2
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: ${name}
              image: ""
              command: []
              resources:
                limits: {}`;

/** What the form begins with. */
export const blanks: Record<Kind, string> = {
  // The service's builder wrote it: the same job as from every other interface.
  mpijob: stringify(builder.blanks.mpijob),
  trainjob: `apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: ""
spec:
  runtimeRef:
    name: torch-distributed
  trainer:
    image: ""
    command: []
    numNodes: 2
    resourcesPerNode:
      limits: {}
`,
  pytorchjob: `apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: ""
spec:
  pytorchReplicaSpecs:
    Worker:${worker("pytorch")}
`,
  tfjob: `apiVersion: kubeflow.org/v1
kind: TFJob
metadata:
  name: ""
spec:
  tfReplicaSpecs:
    Worker:${worker("tensorflow")}
`,
};
