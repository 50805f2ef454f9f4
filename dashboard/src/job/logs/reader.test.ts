import { describe, expect, test } from "vitest";
import type { LogItem } from "./buffer";
import { itemsOf, Position } from "./reader";

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
  const at = (pod: string, cursor: string, also: LogItem["also"] = []) => ({ ...line(pod, ""), cursor, also });

  test("the log goes on at the last place of each pod, whatever the clocks say", () => {
    const position = new Position();
    expect(position.cursors).toEqual([]);
    for (const item of [at("a", "a1"), at("b", "b1"), at("a", "a2", [{ pod: "c", cursor: "c1" }])]) position.take(item);
    expect(position.cursors).toEqual(["a2", "b1", "c1"]);
    position.take(at("b", ""));
    expect(position.cursors).toEqual(["a2", "b1", "c1"]);
  });

  test("a note that the service repeats is no news, but lines are", () => {
    const position = new Position();
    const note: LogItem = { type: "note", text: "again", evidence: false, also: [] };
    expect([note, note, line("a", ""), line("a", "")].map((item) => position.take(item))).toEqual([
      true,
      false,
      true,
      true,
    ]);
  });
});
