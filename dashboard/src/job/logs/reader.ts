// Reads a log from the service: one JSON object per line. Lines are handed on in batches, so that a page that shows 10,000 lines a
// second draws ten times a second; between batches the browser gets time for everything else.

import { errorOf, isTemporary, type Problem } from "../../api/problem";
import { backoff } from "../../api/stream";
import { type Line, type LogItem, lineOf } from "./buffer";

export type ReadState =
  | { state: "connecting" }
  | { state: "reading" }
  /** There is nothing to read yet. */
  | { state: "waiting"; text: string }
  | { state: "cut" }
  | { state: "ended" }
  | { state: "failed"; error: unknown };

export type Handlers = { onLines: (lines: Line[]) => void; onState: (state: ReadState) => void };

const batchInterval = 100;
// How long to parse before the browser gets a turn.
const turn = 12;
// The service sends something every 15 s.
const silenceLimit = 40_000;

/** `address` gets the age in seconds of the oldest line to send, after a break. Returns a function that ends the reading. */
export function readLogs(address: (sinceSeconds?: number) => string, handlers: Handlers): () => void {
  const stop = new AbortController();
  void run(address, handlers, stop.signal);
  return () => stop.abort();
}

async function run(
  address: (sinceSeconds?: number) => string,
  { onLines, onState }: Handlers,
  stop: AbortSignal,
): Promise<void> {
  const seen = new Seen();
  let batch: Line[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const flush = () => {
    clearTimeout(timer);
    timer = undefined;
    if (!batch.length || stop.aborted) return;
    const lines = batch;
    batch = [];
    onLines(lines);
  };
  const take = (item: LogItem) => {
    if (item.type === "waiting") return onState({ state: "waiting", text: item.text ?? "" });
    if (!seen.isNew(item)) return;
    if (!batch.length) onState({ state: "reading" });
    batch.push(lineOf(item));
    timer ??= setTimeout(flush, batchInterval);
  };
  onState({ state: "connecting" });
  for (let attempt = 0; !stop.aborted; ) {
    const since = seen.age();
    const before = seen.count;
    const end = await readOnce(address(since), take, stop);
    flush();
    if (stop.aborted) return;
    if (!end.error) return onState({ state: "ended" });
    if (!isTemporary(end.error)) return onState({ state: "failed", error: end.error });
    onState({ state: "cut" });
    attempt = seen.count > before ? 0 : attempt + 1;
    await pause(backoff(attempt), stop);
    seen.continue();
  }
}

/** Reads one answer to its end. */
async function readOnce(
  address: string,
  take: (item: LogItem) => void,
  stop: AbortSignal,
): Promise<{ error?: unknown }> {
  const connection = new AbortController();
  const abort = () => connection.abort();
  stop.addEventListener("abort", abort);
  let watchdog = setTimeout(abort, silenceLimit);
  try {
    const response = await fetch(address, { signal: connection.signal, cache: "no-store" });
    if (!response.ok || !response.body)
      return { error: errorOf(response.status, await response.json().catch(() => undefined)) };
    for await (const items of itemsOf(response.body)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(abort, silenceLimit);
      for (const item of items) {
        if ("problem" in item) return { error: errorOf(0, item.problem) };
        take(item);
      }
    }
    return {};
  } catch {
    // A connection that breaks is expected; the caller connects again.
    return { error: errorOf(503, undefined) };
  } finally {
    clearTimeout(watchdog);
    stop.removeEventListener("abort", abort);
    abort();
  }
}

/** The objects of an answer, as they arrive; an empty list where only a heartbeat arrived. */
export async function* itemsOf(
  body: ReadableStream<Uint8Array>,
): AsyncGenerator<(LogItem | { problem: Problem })[], void, undefined> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .getReader();
  let rest: string[] = [];
  let started = performance.now();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const end = value.lastIndexOf("\n");
      if (end < 0) {
        rest.push(value);
        continue;
      }
      const whole = rest.join("") + value.slice(0, end);
      rest = [value.slice(end + 1)];
      yield whole
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      if (performance.now() - started < turn) continue;
      await nextTurn();
      started = performance.now();
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** Lets the browser draw and take input. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(undefined);
  });
}

function pause(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** Knows which lines were read before a break, so that those that the service sends again are not shown twice. */
export class Seen {
  count = 0;
  #last = new Map<string, string>();
  #before: Map<string, string> | undefined;

  /** After a break: lines up to the last one of each pod will come again. */
  continue(): void {
    this.#before = new Map(this.#last);
  }

  /** The seconds since the oldest of the last lines of all pods; undefined before the first line. */
  age(now = Date.now()): number | undefined {
    if (!this.#last.size) return undefined;
    const oldest = Math.min(...[...this.#last.values()].map((at) => Date.parse(at)));
    return Math.max(1, Math.ceil((now - oldest) / 1000) + 1);
  }

  isNew(item: LogItem): boolean {
    if (item.type !== "line" || !item.at || !item.pod) return !this.#before;
    const before = this.#before?.get(item.pod);
    if (before && !isAfter(item.at, before)) return false;
    this.#last.set(item.pod, item.at);
    this.count += 1;
    return true;
  }
}

/** Whether a time of the service (RFC 3339 in UTC, any number of decimals) is after another. */
export function isAfter(a: string, b: string): boolean {
  const [seconds, fraction] = split(a);
  const [otherSeconds, otherFraction] = split(b);
  return seconds === otherSeconds ? fraction > otherFraction : seconds > otherSeconds;
}

function split(time: string): [string, string] {
  const [seconds = "", fraction = ""] = time.replace("Z", "").split(".");
  return [seconds, fraction.padEnd(9, "0")];
}
