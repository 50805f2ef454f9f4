import { describe, expect, test } from "vitest";
import { money } from "./money";
import { axisNumber, bytes, number, parseQuantity, quantityText } from "./quantity";
import { ago, duration } from "./time";
import { sentence } from "./words";

describe("times", () => {
  const now = Date.parse("2026-01-31T12:00:00Z");

  test("are said as people say them", () => {
    expect(ago(now - 2_000, now)).toBe("now");
    expect(ago(now - 90_000, now)).toBe("1 minute ago");
    expect(ago(now - 50 * 3_600_000, now)).toBe("2 days ago");
    expect(ago(now + 600_000, now)).toBe("in 10 minutes");
  });

  test("last two units at most", () => {
    expect([0, 59, 60, 3_725, 90_000, -3].map(duration)).toEqual(["0s", "59s", "1m", "1h 2m", "1d 1h", "0s"]);
  });
});

describe("quantities", () => {
  test("are read as Kubernetes reads them", () => {
    for (const [text, expected] of [
      ["500m", 0.5],
      ["4", 4],
      ["+.5", 0.5],
      ["5.", 5],
      ["32Gi", 32 * 2 ** 30],
      ["2k", 2000],
      ["100u", 0.0001],
      ["5n", 5e-9],
      ["-1P", -1e15],
      ["1E", 1e18],
      ["1Ei", 2 ** 60],
      ["1e3", 1000],
      ["12E-1", 1.2],
    ] as const)
      expect(parseQuantity(text), text).toBe(expected);
  });

  test("that are none are no number", () => {
    const texts = ["", "x", "4 Gi", " 4", "4GB", "--1", "1K", "1e3Ki", "1e", "1e999", "1toString"];
    for (const text of texts) expect(parseQuantity(text), text).toBeUndefined();
  });

  test("of memory are shown in the largest unit", () => {
    expect(bytes(128 * 2 ** 30)).toBe("128\u00a0GiB");
    expect(bytes(1.5 * 2 ** 20)).toBe("1.5\u00a0MiB");
    expect(bytes(2 ** 61)).toBe("2\u00a0EiB");
  });

  test("that cannot be read are shown as they came, never as 0", () => {
    expect(["1500m", "250u", "lots", "0"].map((text) => quantityText(text, number))).toEqual([
      "1.5",
      "0.00025",
      "lots",
      "0",
    ]);
  });
});

test("money has two digits and the currency as it was written", () => {
  expect(money("12.4000", "EUR")).toBe("12.40 EUR");
  expect(money("0.0049", "credits")).toBe("0.00 credits");
});

describe("CamelCase words", () => {
  test("become words for people", () => {
    const words = [
      "OutOfMemory",
      "ImagePull",
      "Unschedulable",
      "GPUsExhausted",
      "OOMKilled",
      "ExitCode137",
      "MPIError",
      "",
    ];
    expect(words.map(sentence)).toEqual([
      "Out of memory",
      "Image pull",
      "Unschedulable",
      "GPUs exhausted",
      "OOM killed",
      "Exit code 137",
      "MPI error",
      "",
    ]);
  });
});

test("the numbers at an axis differ, however small they are", () => {
  const shown = [0.0225, 0.0169, 0.0113, 0.0056, 0].map(axisNumber);
  expect(new Set(shown).size).toBe(shown.length);
  expect(axisNumber(1500)).toBe("1,500");
});
