// The live stream of jobs: reads `/api/v1/stream`, continues after breaks, and reports its state.
//
// While the stream is cut, pages poll every 5 s (`pollInterval`); a stream that is back makes them stop.

import type { JobRef, JobRow } from "./client";
import { errorOf, hasCode, type ProblemError } from "./problem";
import { serviceRoot } from "./root";
import type { operations } from "./schema";
import { sessionFetch } from "./session";
import { serverEvents } from "./sse";

export type StreamFilter = Omit<NonNullable<operations["watchJobs"]["parameters"]["query"]>, "lastEventId">;

export type JobsEvent = {
  id: string;
  type: "snapshot" | "change" | "heartbeat";
  jobs: JobRow[];
  deleted: JobRef[];
  first?: boolean;
  complete?: boolean;
};

/** `cut`: since the first of several attempts in a row. `ended`: the service ended the stream for a reason that trying again does not change. */
export type StreamState =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "cut"; since: number; retryAt: number }
  | { state: "ended"; error: ProblemError };

export const pollInterval = 5_000;
// The service sends a heartbeat every 15 s; a connection that is silent for longer is dead.
const silenceLimit = 40_000;
const shortestWait = 500;
const longestWait = 30_000;

/** How long to wait before the n-th attempt in a row; random, so that pages do not all return at once. */
export function backoff(attempt: number, random = Math.random()): number {
  const wait = Math.min(longestWait, shortestWait * 2 ** attempt);
  return wait / 2 + (wait / 2) * random;
}

export function watchJobs(
  filter: StreamFilter,
  onEvent: (event: JobsEvent) => void,
  onState: (state: StreamState) => void,
): () => void {
  const stop = new AbortController();
  void run(filter, onEvent, onState, stop.signal);
  return () => stop.abort();
}

async function run(
  filter: StreamFilter,
  onEvent: (event: JobsEvent) => void,
  onState: (state: StreamState) => void,
  stop: AbortSignal,
): Promise<void> {
  let lastEventId = "";
  let attempt = 0;
  let since: number | undefined;
  onState({ state: "connecting" });
  while (!stop.aborted) {
    const ended = await readOnce(filter, lastEventId, stop, (event) => {
      attempt = 0;
      since = undefined;
      if (event.id) lastEventId = event.id;
      if (event.type !== "snapshot" || event.complete) onState({ state: "live" });
      if (event.type !== "heartbeat") onEvent(event);
    });
    if (stop.aborted) return;
    if (ended && (hasCode(ended, "Unauthenticated") || hasCode(ended, "NotAllowed") || hasCode(ended, "Usage"))) {
      onState({ state: "ended", error: ended });
      return;
    }
    const wait = backoff(attempt);
    attempt += 1;
    since ??= Date.now();
    onState({ state: "cut", since, retryAt: Date.now() + wait });
    await pause(wait, stop);
  }
}

/** Reads one connection to its end. Returns the problem that ended it, if the service reported one. */
async function readOnce(
  filter: StreamFilter,
  lastEventId: string,
  stop: AbortSignal,
  onEvent: (event: JobsEvent) => void,
): Promise<unknown> {
  const connection = new AbortController();
  const abort = () => connection.abort();
  stop.addEventListener("abort", abort);
  // A connection over a network that is gone would stay silent for a long time.
  window.addEventListener("offline", abort, { signal: connection.signal });
  let watchdog = setTimeout(abort, silenceLimit);
  try {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (lastEventId) headers["last-event-id"] = lastEventId;
    const response = await sessionFetch(
      new Request(address(filter), { headers, signal: connection.signal, cache: "no-store" }),
    );
    if (!response.ok || !response.body) return errorOf(response.status, await response.json().catch(() => undefined));
    for await (const event of serverEvents(response.body)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(abort, silenceLimit);
      if (event.event === "problem") return errorOf(0, JSON.parse(event.data));
      onEvent({ ...JSON.parse(event.data), id: event.id });
    }
    return undefined;
  } catch {
    // A connection that breaks is expected; the caller connects again.
    return undefined;
  } finally {
    clearTimeout(watchdog);
    stop.removeEventListener("abort", abort);
    abort();
  }
}

function address(filter: StreamFilter): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filter)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one) query.append(name, one);
  }
  const text = query.toString();
  return `${serviceRoot}/api/v1/stream${text && `?${text}`}`;
}

function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
    // A machine that wakes up, or a network that returns, need not wait.
    window.addEventListener("online", () => resolve(), { once: true, signal: stop });
  });
}
