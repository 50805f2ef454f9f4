// Which field a fault of the service is about. Faults have the path of a field when fields were sent, and the path of a manifest when
// a manifest was sent. The table only places messages; a path that it does not know is listed above the form.

import { kinds } from "../api/client";
import type { FieldFault } from "../api/problem";
import { pathsOf } from "./controls";
import { type Fields, isObject, valueAt } from "./fields";

const container = String.raw`template\.spec\.containers\[0\]`;
const replicas = String.raw`spec\.\w+ReplicaSpecs`;
const pod = String.raw`${replicas}\[\w+\]\.template\.spec`;
const launcherContainer = String.raw`${replicas}\[Launcher\]\.${container}`;
const workerContainer = String.raw`${replicas}\[\w+\]\.${container}`;
const annotation = (name: string) => String.raw`metadata\.annotations\[training\.opendatahub\.io/${name}\]`;
const label = String.raw`metadata\.labels\[kueue\.x-k8s\.io/queue-name\]`;

/** What a path begins with, and the field; the first that fits. Other fields have their own path. */
const places: readonly (readonly [start: string, field: string])[] = [
  [String.raw`metadata\.name`, "name"],
  [String.raw`metadata\.namespace`, "namespace"],
  [label, "queue"],
  [String.raw`metadata\.labels`, "labels"],
  [annotation("launch"), "transport"],
  [annotation("worker-failure"), "failures.workerFailure"],
  [annotation("max-gang-restarts"), "failures.maxGangRestarts"],
  [annotation("start-timeout"), "failures.startTimeout"],
  [annotation("stall-timeout"), "failures.stallTimeout"],
  [String.raw`metadata\.annotations`, "annotations"],
  ["volumes", "mounts"],
  ["launcher_(?:cpu|memory)", "launcher.limits"],
  [String.raw`spec\.runPolicy\.cleanPodPolicy`, "cleanPodPolicy"],
  [String.raw`spec\.runPolicy\.backoffLimit`, "retries"],
  [String.raw`spec\.runPolicy\.activeDeadlineSeconds`, "deadlineSeconds"],
  [String.raw`spec\.activeDeadlineSeconds`, "deadlineSeconds"],
  [String.raw`spec\.runPolicy\.ttlSecondsAfterFinished`, "ttlSeconds"],
  [String.raw`spec\.runPolicy\.schedulingPolicy\.minAvailable`, "minAvailable"],
  [String.raw`spec\.runPolicy\.suspend`, "suspend"],
  [String.raw`spec\.slotsPerWorker`, "slots"],
  [String.raw`spec\.mpiImplementation`, "mpi"],
  [String.raw`spec\.runtimeRef`, "runtime"],
  [String.raw`spec\.trainer\.image`, "image"],
  [String.raw`spec\.trainer\.(?:command|args)`, "command"],
  [String.raw`spec\.trainer\.numNodes`, "workers"],
  [String.raw`spec\.trainer\.numProcPerNode`, "slots"],
  [String.raw`spec\.trainer\.env`, "env"],
  [String.raw`spec\.trainer\.resourcesPerNode\.limits[.[]cpu\]?`, "cpu"],
  [String.raw`spec\.trainer\.resourcesPerNode\.limits[.[]memory\]?`, "memory"],
  [String.raw`spec\.trainer\.resourcesPerNode\.limits`, "worker.limits"],
  [String.raw`spec\.trainer\.resourcesPerNode\.requests`, "worker.requests"],
  [String.raw`${replicas}\[Launcher\]\.restartPolicy`, "launcher.restartPolicy"],
  [String.raw`${replicas}\[\w+\]\.restartPolicy`, "worker.restartPolicy"],
  [String.raw`${replicas}\[\w+\]\.replicas`, "workers"],
  [String.raw`${launcherContainer}\.resources\.limits`, "launcher.limits"],
  [String.raw`${launcherContainer}\.resources\.requests`, "launcher.requests"],
  [String.raw`${workerContainer}\.resources\.limits[.[]cpu\]?`, "cpu"],
  [String.raw`${workerContainer}\.resources\.limits[.[]memory\]?`, "memory"],
  [String.raw`${workerContainer}\.resources\.limits[.[]nvidia\.com/gpu\]?`, "gpus"],
  [String.raw`${workerContainer}\.resources\.limits`, "worker.limits"],
  [String.raw`${workerContainer}\.resources\.requests`, "worker.requests"],
  [String.raw`${workerContainer}\.image`, "image"],
  [String.raw`${workerContainer}\.(?:command|args)`, "command"],
  [String.raw`${workerContainer}\.workingDir`, "workdir"],
  [String.raw`${workerContainer}\.env`, "env"],
  [String.raw`${workerContainer}\.volumeMounts`, "mounts"],
  [String.raw`${pod}\.volumes`, "mounts"],
  [String.raw`${pod}\.nodeSelector`, "scheduling.nodeSelector"],
  [String.raw`${pod}\.tolerations`, "scheduling.tolerations"],
  [String.raw`${pod}\.affinity`, "scheduling.affinity"],
  [String.raw`${pod}\.topologySpreadConstraints`, "scheduling.topologySpread"],
  [String.raw`${pod}\.schedulerName`, "scheduling.scheduler"],
  [String.raw`${pod}\.priorityClassName`, "priority"],
];
const compiled = places.map(([start, field]) => [new RegExp(String.raw`^${start}(?![\w-])`), field] as const);

/** The field that a fault is about, as far as the form has it. */
export function fieldOf(path: string, fields: Fields, shown: readonly string[]): string | undefined {
  const named =
    ownerOf(path, fields) ??
    compiled.find(([start]) => start.test(path))?.[1] ??
    longest(path, shown) ??
    // What is not even of the field's type is reported with the body's path.
    longest(path.replace(/^spec\./, ""), shown);
  return named !== undefined && shown.includes(named) ? named : undefined;
}

/** The field that a path is about, whether or not the form of the job's kind shows it. */
export function fieldNamed(path: string): string | undefined {
  return fieldOf(path, {}, kinds.flatMap(pathsOf));
}

/** An annotation that the person wrote as one is shown where they wrote it, although it has a field, too. */
function ownerOf(path: string, fields: Fields): string | undefined {
  const [, name] = /^metadata\.annotations\[(.*)\]$/.exec(path) ?? [];
  const annotations = valueAt(fields, "annotations");
  return name !== undefined && isObject(annotations) && name in annotations ? "annotations" : undefined;
}

/** The longest field whose path the other begins with. */
function longest(path: string, shown: readonly string[]): string | undefined {
  const fits = shown.filter((field) => path === field || path.startsWith(`${field}.`) || path.startsWith(`${field}[`));
  return fits.sort((one, other) => other.length - one.length)[0];
}

/** The faults of each field, and under the empty text those of none. */
export function placeFaults(
  faults: readonly FieldFault[],
  fields: Fields,
  shown: readonly string[],
): ReadonlyMap<string, FieldFault[]> {
  const placed = new Map<string, FieldFault[]>();
  for (const fault of faults) {
    const field = fieldOf(fault.path ?? "", fields, shown) ?? "";
    placed.set(field, [...(placed.get(field) ?? []), fault]);
  }
  return placed;
}
