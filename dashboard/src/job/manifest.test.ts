import { describe, expect, test } from "vitest";
import { commandOf, ranksOf, readManifest, roleOf } from "./manifest";

const mpijob = `
kind: MPIJob
metadata:
  annotations: { training.opendatahub.io/cloned-from: oom }
spec:
  slotsPerWorker: 2
  runPolicy: { activeDeadlineSeconds: 600, suspend: true }
  mpiReplicaSpecs:
    Launcher: { template: { spec: { containers: [{ image: launcher:1, command: [mpirun], args: [python3, train.py] }] } } }
    Worker:
      replicas: 8
      template:
        spec:
          containers:
            - image: train:1
              command: [/usr/sbin/sshd, -De]
              resources:
                requests: { cpu: 500m, memory: 1Gi }
                limits: { memory: 16Gi, nvidia.com/gpu: 4 }
`;

describe("a manifest", () => {
  test("says what each role requests, whether it is a limit or a request", () => {
    const manifest = readManifest(mpijob);
    expect(roleOf(manifest, "Worker")).toEqual({
      name: "Worker",
      replicas: 8,
      image: "train:1",
      command: ["/usr/sbin/sshd", "-De"],
      cpu: "500m",
      memory: "16Gi",
    });
    expect(roleOf(manifest, "Launcher")).toMatchObject({ replicas: 1, image: "launcher:1", memory: "" });
    expect(manifest).toMatchObject({ slots: 2, suspended: true });
    expect(manifest.origin).toEqual({ name: "oom", how: "clone" });
  });

  test("of other kinds is read as well", () => {
    const pytorch = readManifest("{spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}}}");
    expect(pytorch.roles.map(({ name, replicas }) => [name, replicas])).toEqual([
      ["Master", 1],
      ["Worker", 3],
    ]);
    const train = readManifest("{spec: {trainer: {numNodes: 4, resourcesPerNode: {limits: {memory: 8Gi}}}}}");
    expect(train.roles).toEqual([{ name: "Node", replicas: 4, image: "", command: [], cpu: "", memory: "8Gi" }]);
    expect(ranksOf(train, 1)).toBeUndefined();
    expect(readManifest(undefined).roles).toEqual([]);
  });

  test("says what the job runs: the Launcher's command, which starts what the Workers run", () => {
    expect(commandOf(readManifest(mpijob))).toEqual(["mpirun", "python3", "train.py"]);
    const train = readManifest("{spec: {trainer: {command: [torchrun], args: [train.py]}}}");
    expect(commandOf(train)).toEqual(["torchrun", "train.py"]);
    expect(commandOf(readManifest(undefined))).toEqual([]);
  });

  test("says which ranks are on a Worker", () => {
    const manifest = readManifest(mpijob);
    expect([ranksOf(manifest, 0), ranksOf(manifest, 3)]).toEqual([
      [0, 1],
      [6, 7],
    ]);
    expect(ranksOf({ ...manifest, launcherIsWorker: true }, 0)).toEqual([2, 3]);
  });
});
