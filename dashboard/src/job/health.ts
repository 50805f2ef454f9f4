// How a Worker is, in few words: what decides its colour and shape. Every state of a pod that the service reports has one.

import type { Job, JobRow, Pod } from "../api/client";

export const healths = ["failed", "blocked", "waiting", "starting", "running", "done", "gone"] as const;
export type Health = (typeof healths)[number];

export type Worker = { index: number; health: Health; pod: Pod | undefined; state: string };

const starting = new Set(["Pending", "ContainerCreating", "PodInitializing", "Running", "SchedulingGated"]);

export function healthOf(pod: Pod): Health {
  if (pod.exitCode !== undefined) return pod.exitCode === 0 ? "done" : "failed";
  if (pod.state === "Completed" || pod.state === "Succeeded") return "done";
  if (pod.state === "Running" && pod.ready) return "running";
  if (pod.state === "Terminating") return "gone";
  // `Init:1/2` of a pod that is being prepared, but not `Init:Error`.
  if (starting.has(pod.state ?? "") || /^Init:\d/.test(pod.state ?? "")) return "starting";
  return pod.waitsFor ? "blocked" : "failed";
}

/** Every Worker that the job has or should have. Where its pod is gone, the job's own report says what became of it. */
export function workersOf(job: Job): Worker[] {
  const pods = job.pods.filter((pod) => pod.role !== "Launcher");
  const without = withoutPod(job.row?.phase);
  const byIndex = new Map(pods.map((pod, place) => [pod.index ?? place, pod]));
  const count = Math.max(job.row?.workers?.of ?? 0, ...[...byIndex.keys()].map((index) => index + 1));
  return Array.from({ length: count }, (_, index) => {
    const pod = byIndex.get(index);
    const failed = job.failure?.worker === index && job.row?.phase === "Failed";
    const health = failed ? "failed" : pod ? healthOf(pod) : without;
    return { index, health, pod, state: failed && !pod ? (job.failure?.cause ?? "") : (pod?.state ?? "") };
  });
}

/** How a Worker without a pod is: it was removed at the end, is on its way, or waits with the job. */
function withoutPod(phase: JobRow["phase"]): Health {
  if (phase === "Succeeded" || phase === "Failed") return "gone";
  return phase === "Running" ? "starting" : "waiting";
}

export function countBy(workers: readonly Worker[]): [Health, number][] {
  return healths
    .map((health): [Health, number] => [health, workers.filter((worker) => worker.health === health).length])
    .filter(([, count]) => count > 0);
}
