// The order of pods in the table, and which of them a search finds.

import type { Job, Pod } from "../api/client";
import { type Health, healths, stateText, workersOf } from "./health";

export const columns = ["pod", "state", "node", "gpus", "memory", "ranks", "restarts", "exitCode", "age"] as const;
export type Column = (typeof columns)[number];
export type Entry = { pod: Pod; health: Health; state: string; exists: boolean };

/** A row for each pod, and for each Worker whose pod is gone or does not exist yet. */
export function entriesOf(job: Job, nameOf: (index: number) => string): Entry[] {
  const launchers = job.pods.filter((pod) => pod.role === "Launcher");
  const workers = workersOf(job).map(({ index, health, pod, state }): Entry => {
    const missing = { name: nameOf(index), role: "Worker", index, ready: false, restarts: 0, gpus: 0 };
    return { pod: pod ?? missing, health, state, exists: pod !== undefined };
  });
  const ofLauncher = (pod: Pod): Entry => {
    const { health = "waiting", state = "" } = pod;
    return { pod, health, state, exists: true };
  };
  return [...launchers.map(ofLauncher), ...workers];
}

/** The Launcher first, then Workers by number; a pod without a value is last, whichever the direction. */
export function comparePods(by: Column, down: boolean): (a: Entry, b: Entry) => number {
  return (a, b) => {
    const [first, second] = [keyOf(by, a), keyOf(by, b)];
    if (first === second) return index(a) - index(b);
    if (first === undefined) return 1;
    if (second === undefined) return -1;
    return (first < second ? -1 : 1) * (down ? -1 : 1);
  };
}

function keyOf(by: Column, { pod, health }: Entry): string | number | undefined {
  if (by === "state") return healths.indexOf(health);
  if (by === "node") return pod.node || undefined;
  if (by === "restarts") return pod.restarts;
  if (by === "exitCode") return pod.exitCode;
  if (by === "age") return pod.created;
  return index({ pod });
}

function index({ pod }: Pick<Entry, "pod">): number {
  return pod.role === "Launcher" ? -1 : (pod.index ?? 0);
}

export function matchesPod({ pod, health, state }: Entry, search: string, wanted: Health | undefined): boolean {
  if (wanted && health !== wanted) return false;
  const words = search.trim().toLowerCase();
  return (
    !words ||
    [pod.name, pod.node, stateText({ health, state }), pod.waitsFor].some((text) => text?.toLowerCase().includes(words))
  );
}
