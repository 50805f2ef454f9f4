import { describe, expect, test } from "vitest";
import builder from "./builder.json";
import { hasOpenQuote, joinCommand, splitCommand } from "./command";
import {
  commandChanges,
  envChanges,
  gpuChanges,
  isAbout,
  type Manifest,
  rankChanges,
  readCommand,
  readEnv,
  readManifest,
  readResource,
  readVolumes,
  requestChanges,
  resourceChanges,
  totals,
  volumeChanges,
  write,
} from "./manifest";
import { blanks, type Path, shapes } from "./shapes";

const text = `# Ask Jane before you change this.
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: resnet # short
  labels: {team: vision}
spec:
  slotsPerWorker: 2
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
            - name: launcher
              image: "train:1.0"
              command: [mpirun, -x, LR, python]
              args: [train.py, --name, "two words"]
              env:
                - name: LR
                  value: "0.1"
                - name: TOKEN
                  valueFrom: {secretKeyRef: {name: secrets, key: token}}
    Worker:
      # More would not be faster.
      replicas: 4
      template:
        spec:
          containers:
            - name: worker
              image: train:1.0
              resources:
                limits: {nvidia.com/gpu: 2, memory: 16Gi}
                requests: {memory: 8Gi}
`;

function known(source: string) {
  const manifest: Manifest = readManifest(source);
  if (!("shape" in manifest)) throw new Error("no manifest");
  return manifest;
}

describe("writing a value into a manifest", () => {
  test("keeps comments, order, quotes and everything else", () => {
    const changed = write(text, [[shapes.mpijob.workers, 8]]);
    expect(changed).toBe(text.replace("replicas: 4", "replicas: 8"));
    const renamed = write(text, [[["metadata", "name"], "bert"]]);
    expect(renamed).toBe(text.replace("name: resnet #", "name: bert #"));
  });

  test("that is removed removes the maps that this leaves empty", () => {
    const once = write(
      blanks.mpijob,
      resourceChanges(known(blanks.mpijob).document, shapes.mpijob.resources, "memory", "4Gi"),
    );
    expect(readResource(known(once).document, shapes.mpijob, "memory")).toBe("4Gi");
    const twice = write(once, resourceChanges(known(once).document, shapes.mpijob.resources, "memory", ""));
    expect(twice).not.toContain("resources");
  });

  test("makes the way to it, also through an empty value", () => {
    const changed = write("kind: MPIJob\nspec:\n  runPolicy:\n", [[shapes.mpijob.deadline ?? [], 60]]);
    expect(changed).toBe("kind: MPIJob\nspec:\n  runPolicy:\n    activeDeadlineSeconds: 60\n");
  });

  test("leaves a text alone that is no YAML", () => {
    expect(write("a: 'b", [[["c"], 1]])).toBe("a: 'b");
  });
});

describe("reading a manifest", () => {
  test("says where a text is no YAML", () => {
    expect(readManifest("a: b\nc: 'd")).toEqual({
      fault: { message: expect.any(String), line: expect.any(Number), column: expect.any(Number) },
    });
  });

  test("of another kind says which", () => {
    expect(readManifest("kind: Pod")).toEqual({ unknown: "Pod" });
    expect(readManifest("- kind: Pod")).toEqual({ unknown: "" });
  });

  test("shows the program without what starts it on every rank", () => {
    expect(readCommand(known(text))).toEqual({ text: "python train.py --name 'two words'", everyRank: true });
  });

  test("multiplies what each Worker requests", () => {
    expect(totals(known(text))).toEqual({ workers: 4, gpus: 8, cpu: 0, memory: 4 * 16 * 2 ** 30 });
  });
});

describe("a form field", () => {
  test("of the command writes mpirun and the variables that it passes on", () => {
    const changed = write(
      text,
      commandChanges(known(text), { text: "sh -c 'echo hi'", everyRank: true }, readEnv(known(text))),
    );
    const { document, shape } = known(changed);
    expect(document.toJS().spec.mpiReplicaSpecs.Launcher.template.spec.containers[0]).toMatchObject({
      command: ["mpirun", "--tag-output", "-x", "LR", "sh", "-c", "echo hi"],
    });
    expect(document.hasIn(shape.args)).toBe(false);
  });

  test("of the environment keeps values from secrets", () => {
    const changed = write(text, envChanges(known(text), [{ name: "EPOCHS", value: "3" }]));
    const { spec } = known(changed).document.toJS();
    const [launcher] = spec.mpiReplicaSpecs.Launcher.template.spec.containers;
    expect(launcher.env.map((one: { name: string }) => one.name)).toEqual(["EPOCHS", "TOKEN"]);
    expect(launcher.command.slice(0, 4)).toEqual(["mpirun", "--tag-output", "-x", "EPOCHS"]);
    expect(spec.mpiReplicaSpecs.Worker.template.spec.containers[0].env).toEqual([{ name: "EPOCHS", value: "3" }]);
  });

  test.each(["OpenMPI", "MPICH"] as const)("makes the job that the service's builder makes (%s)", (mpi) => {
    const typed: ((manifest: ReturnType<typeof known>) => readonly [Path, unknown][])[] = [
      () => [
        [["metadata", "name"], "hello"],
        [["spec", "mpiImplementation"], mpi],
        [shapes.mpijob.workers, 3],
      ],
      ({ shape }) => shape.images.map((path) => [path, "quay.io/team/image:1.0"]),
      (manifest) =>
        commandChanges(
          manifest,
          { ...readCommand(manifest), text: "python /train.py --name 'two words'" },
          readEnv(manifest),
        ),
      (manifest) => envChanges(manifest, [...readEnv(manifest), { name: "EPOCHS", value: "3" }]),
      ({ document, shape }) => resourceChanges(document, shape.resources, "memory", "16Gi"),
      ({ document, shape }) => gpuChanges(document, shape, "2"),
      (manifest) =>
        volumeChanges(manifest, [
          { name: "data", value: "/data" },
          { name: "models", value: "/models" },
        ]),
    ];
    const made = typed.reduce((text, step) => {
      const changes = step(known(text));
      return write(text, [...changes, ...rankChanges(known(text), changes)]);
    }, blanks.mpijob);
    // A quantity may be written as a number, too.
    const text = (_key: string, value: unknown) => (typeof value === "number" ? String(value) : value);
    const plain = (value: unknown) => JSON.parse(JSON.stringify(value, text));
    const [job, expected] = [plain(known(made).document.toJS()), plain(builder.examples[mpi])];
    // The blank is one for Open MPI, whose Launcher has variables of its own.
    for (const one of mpi === "OpenMPI" ? [] : [job, expected])
      delete one.spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env;
    expect(job).toEqual(expected);
  });

  test("of volumes reads back what it wrote", () => {
    const pairs = [
      { name: "data", value: "/data" },
      { name: "checkpoints", value: "/checkpoints" },
    ];
    const changed = write(text, volumeChanges(known(text), pairs));
    expect(readVolumes(known(changed))).toEqual(pairs);
    expect(write(changed, volumeChanges(known(changed), []))).toBe(text);
  });

  test("of GPUs gives a rank to each, unless the person chose otherwise", () => {
    const { document, shape } = known(text);
    expect(write(text, gpuChanges(document, shape, "4"))).toContain("slotsPerWorker: 4");
    const chosen = text.replace("slotsPerWorker: 2", "slotsPerWorker: 16");
    expect(write(chosen, gpuChanges(known(chosen).document, shape, "4"))).toContain("slotsPerWorker: 16");
  });

  test("of memory removes a request that would exceed the limit, and keeps one that does not", () => {
    const { document, shape } = known(text);
    expect(write(text, resourceChanges(document, shape.resources, "memory", "4Gi"))).not.toContain("8Gi");
    expect(write(text, resourceChanges(document, shape.resources, "memory", "32Gi"))).toContain("8Gi");
  });

  test("of what is requested keeps a larger limit, and raises a smaller one", () => {
    const { document, shape } = known(text);
    const resources = (memory: string) => {
      const changed = known(write(text, requestChanges(document, shape.resources, "memory", memory)));
      return changed.document.toJS().spec.mpiReplicaSpecs.Worker.template.spec.containers[0].resources;
    };
    expect(resources("4Gi")).toMatchObject({ limits: { memory: "16Gi" }, requests: { memory: "4Gi" } });
    expect(resources("32Gi")).toMatchObject({ limits: { memory: "32Gi" }, requests: { memory: "32Gi" } });
  });
});

describe("a fault of the service", () => {
  test("belongs to the field at its path or above it", () => {
    expect(isAbout("spec.mpiReplicaSpecs[Worker].replicas", shapes.mpijob.workers)).toBe(true);
    expect(
      isAbout("spec.mpiReplicaSpecs[Worker].template.spec.containers[0].resources.limits.cpu", shapes.mpijob.resources),
    ).toBe(true);
    expect(isAbout("spec.mpiReplicaSpecs", shapes.mpijob.workers)).toBe(false);
    expect(isAbout("metadata.namespace", ["metadata", "name"])).toBe(false);
  });
});

describe("a command", () => {
  test("is split as a shell splits it, and joined so that it splits again", () => {
    const cases = ["python train.py", `sh -c 'echo "a b"; exit 1'`, "", String.raw`a\ b "c \" d" ''`];
    for (const one of cases) expect(splitCommand(joinCommand(splitCommand(one)))).toEqual(splitCommand(one));
    expect(splitCommand(cases[3] ?? "")).toEqual(["a b", 'c " d', ""]);
  });

  test("with an open quote is not complete", () => {
    expect(["a 'b", 'a "b', "a 'b'", String.raw`a \'b`].map(hasOpenQuote)).toEqual([true, true, false, false]);
  });
});
