// Reads from a job's manifest what the service does not report in fields of its own: what each role requests, and the job that this
// one was copied from. Nothing here is checked: a manifest that the cluster holds is valid.

import { parse } from "yaml";

export type Role = {
  name: string;
  replicas: number;
  image: string;
  /** What its container runs, with its arguments; empty if its image decides. */
  command: string[];
  cpu: string;
  memory: string;
};

export type Manifest = {
  roles: Role[];
  slots: number;
  launcherIsWorker: boolean;
  suspended: boolean;
  /** The job that this one repeats, or was copied from. */
  origin: { name: string; how: "retry" | "clone" } | undefined;
};

type Node = { [key: string]: unknown };

export function readManifest(text: string | undefined): Manifest {
  const object = node(text ? parse(text) : undefined);
  const spec = node(object.spec);
  const policy = node(spec.runPolicy);
  return {
    roles: roles(spec),
    slots: Number(spec.slotsPerWorker) || 1,
    launcherIsWorker: spec.runLauncherAsWorker === true,
    suspended: policy.suspend === true || spec.suspend === true,
    origin: origin(node(node(object.metadata).annotations)),
  };
}

function origin(annotations: Node): Manifest["origin"] {
  const retry = annotations["training.opendatahub.io/retry-of"];
  if (typeof retry === "string") return { name: retry, how: "retry" };
  const clone = annotations["training.opendatahub.io/cloned-from"];
  return typeof clone === "string" ? { name: clone, how: "clone" } : undefined;
}

function roles(spec: Node): Role[] {
  const replicas = Object.entries(spec).find(([name]) => name.endsWith("ReplicaSpecs"));
  if (replicas)
    return Object.entries(node(replicas[1])).map(([name, value]) => {
      const container = node(list(node(node(node(value).template).spec).containers)[0]);
      return role(name, whole(node(value).replicas) ?? 1, container, node(container.resources));
    });
  const trainer = node(spec.trainer);
  if (!spec.trainer) return [];
  return [role("Node", whole(trainer.numNodes) ?? 1, trainer, node(trainer.resourcesPerNode))];
}

function role(name: string, replicas: number, { image, command, args }: Node, resources: Node): Role {
  const amounts = { ...node(resources.requests), ...node(resources.limits) };
  const amount = (key: string) => (amounts[key] === undefined ? "" : String(amounts[key]));
  return {
    name,
    replicas,
    image: typeof image === "string" ? image : "",
    command: [...list(command), ...list(args)].map(String),
    cpu: amount("cpu"),
    memory: amount("memory"),
  };
}

// Where several roles have a command, one of these leads the others: the Launcher starts what runs in the Workers.
const leaders = ["Launcher", "Master", "Chief"];

/** The command that the job is about. */
export function commandOf({ roles }: Manifest): string[] {
  const withCommand = roles.filter(({ command }) => command.length > 0);
  const leader = withCommand.find(({ name }) => leaders.includes(name));
  return (leader ?? withCommand[0])?.command ?? [];
}

/** The role of a pod, by the word that the service uses for it. */
export function roleOf(manifest: Manifest, role: string | undefined): Role | undefined {
  return manifest.roles.find((one) => one.name.toLowerCase() === role?.toLowerCase());
}

/** The ranks that `mpirun` puts on a Worker when it fills slot by slot, as it does unless it is asked for another order. */
export function ranksOf(manifest: Manifest, worker: number | undefined): [number, number] | undefined {
  if (worker === undefined || !manifest.roles.some((role) => role.name === "Launcher")) return undefined;
  const first = (worker + (manifest.launcherIsWorker ? 1 : 0)) * manifest.slots;
  return [first, first + manifest.slots - 1];
}

function node(value: unknown): Node {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Node) : {};
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

function whole(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) ? value : undefined;
}
