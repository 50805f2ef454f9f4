// How each Worker is, in few words, as the service computed it: what decides its colour and shape.

import type { Job, Pod } from "../api/client";

/** The words that have a shape, the worst first. A newer service may send others. */
export const healths = ["failed", "blocked", "waiting", "starting", "running", "done", "gone"] as const;
export type Health = NonNullable<Pod["health"]>;

export type Worker = { index: number; health: Health; pod: Pod | undefined; state: string };

/** Every Worker that the job has or should have, with its pod if it has one. */
export function workersOf(job: Job): Worker[] {
  const pods = new Map(job.pods.map((pod) => [pod.name, pod]));
  return job.workerList.map(({ index, health = "waiting", pod, state = "" }) => ({
    index,
    health,
    pod: pod ? pods.get(pod) : undefined,
    state,
  }));
}

/** The number of Workers of each health, the worst first; words that are not known are last. */
export function countBy(workers: readonly Worker[]): [Health, number][] {
  const found = new Set<Health>([...healths, ...workers.map(({ health }) => health)]);
  return [...found]
    .map((health): [Health, number] => [health, workers.filter((worker) => worker.health === health).length])
    .filter(([, count]) => count > 0);
}
