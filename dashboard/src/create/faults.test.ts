import { expect, test } from "vitest";
import { kinds } from "../api/client";
import { controlsOf, pathsOf } from "./controls";
import { fieldOf, placeFaults } from "./faults";

const shown = pathsOf("mpijob");
const at = (path: string, fields = {}) => fieldOf(path, fields, shown);
const worker = "spec.mpiReplicaSpecs[Worker]";
const container = `${worker}.template.spec.containers[0]`;

test.each([
  ["image", "image"],
  ["env", "env"],
  ["volumes", "mounts"],
  ["volumes.size", "mounts"],
  ["mounts[0]", "mounts"],
  ["variables[1].key", "variables"],
  ["worker.limits.amd.com/gpu", "worker.limits"],
  ["worker.scheduling.affinity.nodeAffinity.require", "worker.scheduling.affinity"],
  ["launcher_cpu", "launcher.limits"],
  ["metadata.name", "name"],
  ["spec.runPolicy.cleanPodPolicy", "cleanPodPolicy"],
  ["spec.slots", "slots"],
  ["spec.failures.maxGangRestarts", "failures.maxGangRestarts"],
  ["metadata.labels[kueue.x-k8s.io/queue-name]", "queue"],
  ["metadata.labels[team]", "labels"],
  ["metadata.annotations[training.opendatahub.io/stall-timeout]", "failures.stallTimeout"],
  ["metadata.annotations[training.opendatahub.io/progress]", "annotations"],
  [`${worker}.replicas`, "workers"],
  [`${container}.image`, "image"],
  [`${container}.env[0].name`, "env"],
  [`${container}.resources.limits.cpu`, "cpu"],
  [`${container}.resources.limits.nvidia.com/gpu`, "gpus"],
  [`${container}.resources.limits.amd.com/gpu`, "worker.limits"],
  [`${container}.resources.limits[memory]`, "memory"],
  ["spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].resources.limits.cpu", "launcher.limits"],
  [`${worker}.template.spec.tolerations[0].effect`, "scheduling.tolerations"],
])("a fault at %s is about %s", (path, field) => {
  expect(at(path)).toBe(field);
});

test.each(["spec.mpiReplicaSpecs", "metadata", "worker", "imagery", `${worker}.template.spec.hostNetwork`, ""])(
  "a fault at %j is about no field",
  (path) => {
    expect(at(path)).toBeUndefined();
  },
);

test("an annotation that the person wrote as one has its fault there", () => {
  const name = "training.opendatahub.io/stall-timeout";
  expect(at(`metadata.annotations[${name}]`, { annotations: { [name]: "" } })).toBe("annotations");
});

test("what a kind's form does not have is listed above it", () => {
  const fault = { path: "priority", fault: "cannot be set for a TrainJob" };
  expect([...placeFaults([fault], {}, pathsOf("trainjob"))]).toEqual([["", [fault]]]);
});

test("a form has no field twice, and none that its kind has no place for", () => {
  for (const kind of kinds) expect(new Set(pathsOf(kind)).size).toBe(pathsOf(kind).length);
  expect(controlsOf("trainjob", "worker").map(({ at }) => at)).toEqual(["worker.limits", "worker.requests"]);
  expect(controlsOf("pytorchjob", "launcher")).toEqual([]);
  expect(pathsOf("mpijob")).not.toContain("runtime");
});
