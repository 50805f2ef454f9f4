import { describe, expect, test } from "vitest";
import { highlighter, pieces } from "./highlight";
import type { Finder } from "./pattern";
import { escapePattern } from "./text";

describe("search", () => {
  const found = (text: string, find: Finder | undefined) =>
    pieces(text, find)
      .filter((piece) => piece.found)
      .map((piece) => piece.text);

  test("marks every match and keeps the rest of the line", () => {
    const all = pieces("loss=1 Loss=2", highlighter("loss=\\d", true, false));
    expect(all.map((piece) => piece.text).join("")).toBe("loss=1 Loss=2");
    expect(all.filter((piece) => piece.found).map((piece) => piece.text)).toEqual(["loss=1", "Loss=2"]);
  });

  test("takes plain text literally", () => {
    expect(found("a.b axb", highlighter("a.b", false, true))).toEqual(["a.b"]);
    expect(escapePattern("a.b(c)")).toBe("a\\.b\\(c\\)");
  });

  test("of a pattern that matches nothing or is none marks nothing", () => {
    expect(pieces("abc", highlighter("x*", true, true))).toEqual([{ text: "abc", found: false }]);
    expect(highlighter("(", true, true)).toBeUndefined();
  });

  test("marks a bounded number of matches", () => {
    expect(found("a".repeat(1_000), highlighter("a", true, true))).toHaveLength(100);
  });

  test("finds what the browser's own engine finds", () => {
    const random = mulberry32(20_261_127);
    const choose = <T>(all: readonly T[]): T => all[Math.floor(random() * all.length)] as T;
    const atoms = ["a", "b", "-", ".", "\\d", "\\w", "[ab]", "[^a]", "\\.", "\\b", "^", "$", "ä", "(?:ab|a)", "(b|-1)"];
    const amounts = ["", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{1,}?"];
    const item = (): string => {
      const atom = choose(atoms);
      return "^$\\b".includes(atom) ? atom : atom + choose(amounts);
    };
    for (let round = 0; round < 3_000; round += 1) {
      const sequence = () => Array.from({ length: 1 + Math.floor(random() * 4) }, item).join("");
      const pattern = random() < 0.3 ? `${sequence()}|${sequence()}` : sequence();
      const matchCase = random() < 0.5;
      const text = Array.from({ length: 12 }, () => choose([..."aAbB-1.ä_ 😀"])).join("");
      const native = [...text.matchAll(new RegExp(pattern, matchCase ? "gu" : "giu"))];
      const wanted = native.filter((match) => match[0]).map((match) => match[0]);
      expect(found(text, highlighter(pattern, true, matchCase)), `${pattern} in ${text}`).toEqual(wanted);
    }
  });

  test("takes time that grows with the line only, whatever the pattern", () => {
    const patterns = [
      "(a|a)*b",
      "(a+)+$",
      "(a*)*b",
      "a*a*a*a*a*a*a*b",
      "(.*)(.*)(.*)(.*)[0-9]{50}x",
      "(a|aa)+$",
      "a(.*z)?",
    ];
    const lines = ["a".repeat(2_000), `b ${"a".repeat(40)}!`, "aä".repeat(1_000)];
    const started = performance.now();
    for (const pattern of patterns) for (const line of lines) pieces(line, highlighter(pattern, true, false));
    expect(performance.now() - started).toBeLessThan(5_000);
    expect(found(`b ${"a".repeat(40)}!`, highlighter("(a|a)*b", true, false))).toEqual(["b"]);
  });

  test("of a pattern that only the service knows marks nothing", () => {
    for (const pattern of [
      "(?i)a",
      "[[:alpha:]]",
      "[a&&b]",
      "\\pL",
      "(?=a)",
      "a{1001}",
      "(a{99}){99}",
      "\\",
      "a)",
      "[]a]",
    ]) {
      expect(highlighter(pattern, true, true), pattern).toBeUndefined();
    }
    expect(found("x-y", highlighter('\\-|\\"', true, true))).toEqual(["-"]);
    expect(found("a}b]", highlighter("}|]", true, true))).toEqual(["}", "]"]);
    expect(found("step 12", highlighter("(?P<step>\\d+)", true, true))).toEqual(["12"]);
  });
});

/** A generator of numbers between 0 and 1 that gives the same ones in every run. */
function mulberry32(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
