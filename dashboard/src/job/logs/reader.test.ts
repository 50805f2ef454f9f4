import { describe, expect, test } from "vitest";
import type { LogItem } from "./buffer";
import { isAfter, itemsOf, Seen } from "./reader";

const body = (...parts: string[]) =>
  new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of parts) controller.enqueue(new TextEncoder().encode(part));
      controller.close();
    },
  });
const line = (pod: string, at: string, text = "x") =>
  ({ type: "line", pod, at, text, evidence: false, also: [] }) satisfies LogItem;

describe("the answer with a log", () => {
  test("is read wherever it is cut into parts, and heartbeats are nothing", async () => {
    const all = [];
    for await (const items of itemsOf(body('{"text":"a', 'ä"}\n\n{"te', 'xt":"b"}\n{"text":"c"}\n')))
      all.push(...items);
    expect(all).toEqual([{ text: "aä" }, { text: "b" }, { text: "c" }]);
  });
});

describe("after a break", () => {
  test("only lines after the last one of their pod are new", () => {
    const seen = new Seen();
    for (const item of [line("a", "2026-01-01T00:00:01Z"), line("b", "2026-01-01T00:00:05.5Z")]) seen.isNew(item);
    seen.continue();
    expect(seen.isNew(line("a", "2026-01-01T00:00:01Z"))).toBe(false);
    expect(seen.isNew(line("a", "2026-01-01T00:00:02Z"))).toBe(true);
    expect(seen.isNew(line("b", "2026-01-01T00:00:05.500Z"))).toBe(false);
    expect(seen.isNew(line("c", "2026-01-01T00:00:00Z"))).toBe(true);
    expect(seen.isNew({ type: "note", text: "again", evidence: false, also: [] })).toBe(false);
  });

  test("lines are asked for from the oldest that a pod may lack", () => {
    const seen = new Seen();
    expect(seen.age()).toBeUndefined();
    for (const item of [line("a", "2026-01-01T00:00:10Z"), line("b", "2026-01-01T00:00:40Z")]) seen.isNew(item);
    expect(seen.age(Date.parse("2026-01-01T00:01:00Z"))).toBe(51);
  });

  test("times are compared to the nanosecond", () => {
    expect(isAfter("2026-01-01T00:00:01.1Z", "2026-01-01T00:00:01.099999999Z")).toBe(true);
    expect(isAfter("2026-01-01T00:00:01.000000001Z", "2026-01-01T00:00:01Z")).toBe(true);
    expect(isAfter("2026-01-01T00:00:01Z", "2026-01-01T00:00:01.000Z")).toBe(false);
  });
});
