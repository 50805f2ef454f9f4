// How each Worker is, in few words, as the service computed it: what decides its colour and shape.

import type { Job, Pod } from "../api/client";
import { messages } from "../messages";

/** The words that have a shape, the worst first. A newer service may send others. */
export const healths = ["failed", "blocked", "waiting", "starting", "running", "done", "gone"] as const;
export type Health = NonNullable<Pod["health"]>;

/** `state` is empty if the health says everything that is known. */
export type Worker = { index: number; health: Health; pod: Pod | undefined; state: string };

/** Every Worker that the job has or should have, with its pod if it has one. */
export function workersOf(job: Job): Worker[] {
  const pods = new Map(job.pods.map((pod) => [pod.name, pod]));
  return job.workerList.map(({ index, health = "waiting", pod: name, state = "" }) => {
    const pod = name ? pods.get(name) : undefined;
    // The pod of a failed Worker may run on: its state is not the Worker's.
    const isOfPod = pod !== undefined && pod.health !== health && pod.state === state;
    return { index, health, pod, state: isOfPod ? "" : state };
  });
}

/** The state of a Worker or a pod in words, never empty. */
export function stateText({ health, state }: Pick<Worker, "health" | "state">): string {
  return state || (messages.job.workers.health[health] ?? health);
}

/** The number of Workers of each health, the worst first; words that are not known are last. */
export function countBy(workers: readonly Worker[]): [Health, number][] {
  const found = new Set<Health>([...healths, ...workers.map(({ health }) => health)]);
  return [...found]
    .map((health): [Health, number] => [health, workers.filter((worker) => worker.health === health).length])
    .filter(([, count]) => count > 0);
}
