import { describe, expect, test } from "vitest";
import { readable, shorten } from "./text";

describe("text of a log", () => {
  test("loses its terminal codes", () => {
    expect(readable("\u001b[31mred\u001b[0m")).toBe("red");
    expect(readable("\u001b]0;a title\u0007text")).toBe("text");
    expect(readable("\u001b]8;;https://example.com\u001b\\link\u001b]8;;\u001b\\")).toBe("link");
    expect(readable("\u001bP1;2|device\u001b\\after")).toBe("after");
    expect(readable("\u009b2Jcleared")).toBe("cleared");
    expect(readable("\u001b[2J\u001b[1;1H\u001bc")).toBe("");
  });

  test("shows characters that would hide or reorder other text", () => {
    expect(readable("user\u202Eexe.gpj")).toBe("user‹U+202E›exe.gpj");
    expect(readable("a\u2066b\u2069c\u200d\u0000\u0007\u007f\ufeff")).toBe("a‹U+2066›b‹U+2069›c‹U+200D›␀␇␡‹U+FEFF›");
    expect(readable("one\u2028two")).toBe("one‹U+2028›two");
  });

  test("keeps tabs, markup and other scripts", () => {
    expect(readable("\t<img src=x onerror=alert(1)> שלום 你好 🚀")).toBe("\t<img src=x onerror=alert(1)> שלום 你好 🚀");
  });

  test("of a progress bar is its last state", () => {
    expect(readable(" 10%\r 50%\r100%\r")).toBe("100%");
    expect(readable("done\r\r")).toBe("done");
  });

  test("of any length is cut, and says how much is left out", () => {
    expect(shorten("short")).toEqual({ text: "short", more: 0 });
    expect(shorten("x".repeat(1_000_000), 100)).toEqual({ text: "x".repeat(100), more: 999_900 });
    expect(shorten(`${"a".repeat(99)}😀b`, 100).text).toBe("a".repeat(99));
    expect(shorten(`${"5%\r".repeat(1_000)}100%`, 100)).toEqual({ text: "100%", more: 0 });
    expect(shorten(`\u001b[31m${"x".repeat(98)}\u001b[0m`, 100)).toEqual({ text: "x".repeat(98), more: 0 });
  });

  test("that is hostile is read in time that grows with its length only", () => {
    const started = performance.now();
    for (const hostile of ["\u001b]", "\u001bP", "\u001b[", "\r", "\u202e"]) shorten(hostile.repeat(500_000));
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
