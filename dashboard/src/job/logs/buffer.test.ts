import { describe, expect, test } from "vitest";
import { type Line, LineBuffer, lineOf } from "./buffer";

const line = (text: string, at = Number.NaN, evidence = false): Line => ({
  ...lineOf({ type: "line", pod: "launcher", text, evidence, also: [] }),
  at,
});
const texts = (buffer: LineBuffer) =>
  Array.from({ length: buffer.size }, (_, index) => buffer.at(buffer.first + index)?.text);

describe("the lines of a log", () => {
  test("keep their numbers while older ones are dropped", () => {
    const buffer = new LineBuffer(3);
    buffer.append(["a", "b", "c", "d"].map((text) => line(text)));
    expect(texts(buffer)).toEqual(["b", "c", "d"]);
    expect([buffer.first, buffer.end, buffer.size]).toEqual([1, 4, 3]);
    expect(buffer.at(0)).toBeUndefined();
    expect(buffer.at(3)?.text).toBe("d");
    expect(buffer.at(4)).toBeUndefined();
  });

  test("are bounded in characters too, but the last one is always held", () => {
    const buffer = new LineBuffer(100, 10);
    buffer.append([line("12345"), line("67890"), line("x")]);
    expect(texts(buffer)).toEqual(["67890", "x"]);
    buffer.append([line("y".repeat(50))]);
    expect(texts(buffer)).toEqual(["y".repeat(50)]);
  });

  test("that are evidence are known by number until they are dropped", () => {
    const buffer = new LineBuffer(2);
    buffer.append([line("a", 1, true), line("b")]);
    expect(buffer.evidence).toEqual([0]);
    buffer.append([line("c", 3, true)]);
    expect(buffer.evidence).toEqual([2]);
  });

  test("are found by time, notes without a time among them", () => {
    const buffer = new LineBuffer(10);
    buffer.append([line("note"), line("a", 10), line("note"), line("b", 20), line("c", 30)]);
    expect(buffer.at(buffer.nearest(20))?.text).toBe("b");
    expect(buffer.at(buffer.nearest(25))?.text).toBe("b");
    expect(buffer.at(buffer.nearest(99))?.text).toBe("c");
    expect(buffer.nearest(0)).toBe(0);
  });

  test("hold a million in bounded memory", () => {
    const buffer = new LineBuffer(1_000);
    for (let batch = 0; batch < 1_000; batch += 1) buffer.append(Array.from({ length: 1_000 }, () => line("x")));
    expect([buffer.end, buffer.size]).toEqual([1_000_000, 1_000]);
  });
});
