// How fresh a page is while its stream is cut: whether the reads that take the stream's place succeed.

import { isTemporary } from "./problem";
import type { StreamState } from "./stream";

type Read = { dataUpdatedAt: number; errorUpdatedAt: number; error: unknown; fetchFailureReason: unknown };

/** `polled`: a read has succeeded since the stream was cut. `stale`: reads fail; `since` is the last that succeeded, in milliseconds. */
export type Freshness = { state: Exclude<StreamState["state"], "cut"> | "polled" } | { state: "stale"; since?: number };

/** The state of a page by its stream and the reads of jobs that are in use. Until a read has ended, the page is connecting. */
export function freshnessOf(stream: StreamState | undefined, reads: readonly Read[]): Freshness | undefined {
  if (stream?.state !== "cut") return stream && { state: stream.state };
  const succeeded = Math.max(0, ...reads.map(({ dataUpdatedAt }) => dataUpdatedAt));
  const failed = Math.max(0, ...reads.map(failedAt));
  if (failed > succeeded) return { state: "stale", ...(succeeded && { since: succeeded }) };
  return { state: succeeded >= stream.since ? "polled" : "connecting" };
}

/** When a read failed last because the service was away. A refusal is an answer. */
function failedAt({ error, errorUpdatedAt, fetchFailureReason }: Read): number {
  // A read that will be tried again has failed now.
  if (isTemporary(fetchFailureReason)) return Number.POSITIVE_INFINITY;
  return isTemporary(error) ? errorUpdatedAt : 0;
}

export function isOfJobs([first]: readonly unknown[]): boolean {
  return first === "jobs" || first === "job";
}
