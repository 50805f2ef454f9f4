// Which fields the form has, in the order in which people think of a job, with what kind of control; and which of them a kind of job
// has no place for.

import type { Kind } from "../api/client";
import { messages } from "../messages";
import type { Offered } from "./offers";

const { choices } = messages.create;

export type Control = { at: string } /** `offered`: what the field offers to choose from. */ & (
  | { as: "text"; placeholder?: string; isRequired?: boolean; isWide?: boolean; offered?: Offered }
  /** `least`: the least that the contract allows; the field has buttons for one more and one less. */
  | { as: "number"; isRequired?: boolean; least?: number }
  | { as: "choice"; choices: Readonly<Record<string, string>> }
  /** `isNot`: checked means that the field is not set. */
  | { as: "check"; isNot?: boolean }
  | { as: "namespace" | "command" | "yaml" | "texts" | "amounts" | "variables" | "volumes" | "tolerations" | "own" }
);
export type Section = "what" | "where" | "size" | "data" | "more" | "failures" | "scheduling" | "worker" | "launcher";

const scheduling = (below: string): Control[] => [
  { at: `${below}.nodeSelector`, as: "texts" },
  { at: `${below}.tolerations`, as: "tolerations" },
  { at: `${below}.affinity`, as: "yaml" },
  { at: `${below}.topologySpread`, as: "yaml" },
  { at: `${below}.scheduler`, as: "text" },
];

/** What is different for the pods of a role. */
const part = (role: "worker" | "launcher"): Control[] => [
  { at: `${role}.image`, as: "text", isWide: true, offered: "images" },
  { at: `${role}.restartPolicy`, as: "choice", choices: choices.restartPolicy },
  { at: `${role}.limits`, as: "amounts" },
  { at: `${role}.requests`, as: "amounts" },
  { at: `${role}.env`, as: "texts" },
  { at: `${role}.variables`, as: "variables" },
  { at: `${role}.mounts`, as: "volumes" },
  { at: `${role}.labels`, as: "texts" },
  { at: `${role}.annotations`, as: "texts" },
  { at: `${role}.scheduling`, as: "own" },
];

export const sections: Readonly<Record<Section, readonly Control[]>> = {
  what: [
    { at: "name", as: "text", isRequired: true, isWide: true },
    {
      at: "runtime",
      as: "text",
      isRequired: true,
      isWide: true,
      placeholder: "torch-distributed",
      offered: "runtimes",
    },
    {
      at: "image",
      as: "text",
      isRequired: true,
      isWide: true,
      placeholder: "quay.io/team/image:1.0",
      offered: "images",
    },
    { at: "command", as: "command" },
    { at: "inLauncher", as: "check", isNot: true },
    { at: "workdir", as: "text", isWide: true, placeholder: "/workspace" },
  ],
  where: [
    { at: "namespace", as: "namespace" },
    { at: "queue", as: "text", offered: "queues" },
    { at: "priority", as: "text", offered: "priorityClasses" },
  ],
  size: [
    { at: "workers", as: "number", isRequired: true, least: 1 },
    { at: "gpus", as: "number", least: 0 },
    { at: "cpu", as: "text", placeholder: "4" },
    { at: "memory", as: "text", placeholder: "16Gi" },
    { at: "slots", as: "number", least: 1 },
  ],
  data: [
    { at: "env", as: "texts" },
    { at: "variables", as: "variables" },
    { at: "mounts", as: "volumes" },
  ],
  more: [
    { at: "mpi", as: "choice", choices: choices.mpi },
    { at: "transport", as: "choice", choices: choices.transport },
    { at: "untagged", as: "check", isNot: true },
    { at: "restricted", as: "check" },
    { at: "deadlineSeconds", as: "number" },
    { at: "retries", as: "number", least: 0 },
    { at: "ttlSeconds", as: "number" },
    { at: "cleanPodPolicy", as: "choice", choices: choices.cleanPodPolicy },
    { at: "minAvailable", as: "number", least: 1 },
    { at: "suspend", as: "check" },
    { at: "labels", as: "texts" },
    { at: "annotations", as: "texts" },
  ],
  failures: [
    { at: "failures.workerFailure", as: "choice", choices: choices.workerFailure },
    { at: "failures.maxGangRestarts", as: "number", least: 0 },
    { at: "failures.startTimeout", as: "text", placeholder: "10m" },
    { at: "failures.stallTimeout", as: "text", placeholder: "10m" },
  ],
  scheduling: scheduling("scheduling"),
  worker: part("worker"),
  launcher: part("launcher"),
};

/** The fields of pods that are placed differently from the job's others. */
export const ownScheduling = { worker: scheduling("worker.scheduling"), launcher: scheduling("launcher.scheduling") };

const ofMpi = ["inLauncher", "slots", "mpi", "transport", "untagged", "launcher", "failures"];
const missing: Readonly<Record<Kind, readonly string[]>> = {
  mpijob: ["runtime"],
  pytorchjob: ["runtime", ...ofMpi],
  tfjob: ["runtime", ...ofMpi],
  // What its runtime decides.
  trainjob: [
    ...["transport", "restricted", "priority", "cleanPodPolicy", "retries", "ttlSeconds", "minAvailable"],
    ...["scheduling", "failures", "launcher"],
    ...["image", "restartPolicy", "env", "variables", "mounts", "labels", "annotations", "scheduling"].map(
      (field) => `worker.${field}`,
    ),
  ],
};

export function controlsOf(kind: Kind, section: Section): Control[] {
  const isMissing = (at: string) => missing[kind].some((field) => at === field || at.startsWith(`${field}.`));
  // A TrainJob's image may be the runtime's.
  const isOptional = ({ at }: Control) => kind === "trainjob" && at === "image";
  return sections[section]
    .filter(({ at }) => !isMissing(at))
    .map((control) => (isOptional(control) ? { ...control, isRequired: false } : control));
}

/** The paths of all fields that the form of a kind shows. */
export function pathsOf(kind: Kind): string[] {
  const all = (Object.keys(sections) as Section[]).flatMap((section) => controlsOf(kind, section));
  const own = all.filter(({ as }) => as === "own").map(({ at }) => at);
  const nested = Object.values(ownScheduling).flat();
  return [...all, ...nested.filter(({ at }) => own.some((one) => at.startsWith(`${one}.`)))].map(({ at }) => at);
}
