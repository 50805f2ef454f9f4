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

/** `address` gets the places at which to go on after a break. Returns a function that ends the reading. */
export function readLogs(address: (cursors: readonly string[]) => string, handlers: Handlers): () => void {
  const stop = new AbortController();
  void run(address, handlers, stop.signal);
  return () => stop.abort();
}

async function run(
  address: (cursors: readonly string[]) => string,
  { onLines, onState }: Handlers,
  stop: AbortSignal,
): Promise<void> {
  const position = new Position();
  let count = 0;
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
    if (!position.take(item)) return;
    count += 1;
    if (!batch.length) onState({ state: "reading" });
    batch.push(lineOf(item));
    timer ??= setTimeout(flush, batchInterval);
  };
  onState({ state: "connecting" });
  for (let attempt = 0; !stop.aborted; ) {
    const before = count;
    const end = await readOnce(address(position.cursors), take, stop);
    flush();
    if (stop.aborted) return;
    if (!end.error) return onState({ state: "ended" });
    if (!isTemporary(end.error)) return onState({ state: "failed", error: end.error });
    onState({ state: "cut" });
    attempt = count > before ? 0 : attempt + 1;
    await pause(backoff(attempt), stop);
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

/** Where to go on after a break: the last place of each pod, as the service gave it. */
export class Position {
  readonly #cursors = new Map<string, string>();
  #notes = new Set<string>();

  get cursors(): string[] {
    return [...this.#cursors.values()];
  }

  /** Notes a place; returns whether the item is news: after a break, the service repeats its notes. */
  take(item: LogItem): boolean {
    for (const { pod = "", cursor } of [item, ...(item.also ?? [])]) if (cursor) this.#cursors.set(pod, cursor);
    if (item.type !== "note") return true;
    const note = `${item.pod} ${item.text}`;
    const isNews = !this.#notes.has(note);
    this.#notes.add(note);
    return isNews;
  }
}
