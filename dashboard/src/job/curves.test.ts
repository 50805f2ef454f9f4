import { describe, expect, test } from "vitest";
import { aboveZero, countNotAboveZero, overlaid, plotOf, smoothed, within } from "./curves";
import { type JobMetrics, trainingChart } from "./metrics-data";

const second = Date.parse("2026-01-01T00:00:00Z") / 1000;

/** A metric with a point each second. */
const series = (name: string, points: [value: number, step?: number][], start = "2026-01-01T00:00:00Z") =>
  ({
    name,
    source: "output",
    start,
    seconds: [],
    values: [],
    notFinite: 0,
    points: points.map(([value, step], seconds) => ({ seconds, value, step })),
  }) satisfies JobMetrics["training"][number];

const loss = trainingChart(
  series("loss", [
    [4, 10],
    [3, 20],
    [9, undefined],
    [2, 20],
    [1, 30],
  ]),
);

describe("a chart over steps", () => {
  test("has each step once, with its last value and time, and says how many values have none", () => {
    const plot = plotOf(loss, "step");
    expect(plot).toMatchObject({ axis: "step", x: [10, 20, 30], leftOut: 1, curves: [{ values: [4, 2, 1] }] });
    expect(plot.times).toEqual([second, second + 3, second + 4]);
  });

  test("is one over time where the program names no step", () => {
    const plain = trainingChart(series("accuracy", [[0.5], [0.6]]));
    expect(plotOf(plain, "step")).toMatchObject({ axis: "time", x: [second, second + 1], leftOut: 0 });
    expect(plotOf(loss, "time")).toMatchObject({ axis: "time", curves: [{ values: [4, 3, 9, 2, 1] }] });
  });
});

test("a part of a chart has the values of its range, with their steps", () => {
  const part = within(loss, [(second + 1) * 1000, (second + 3) * 1000]);
  expect(part).toMatchObject({ curves: [{ values: [3, 9, 2] }], steps: [20, null, 20] });
  expect(within(loss, undefined)).toBe(loss);
});

test("a smoothed curve begins at its first value and keeps its gaps", () => {
  expect(smoothed([4, null, 4, 4], 0.9).map((value) => value && Math.round(value * 1e9) / 1e9)).toEqual([
    4,
    null,
    4,
    4,
  ]);
  expect(smoothed([0, 1], 0.5)[1]).toBeCloseTo(2 / 3);
  expect(smoothed([3, 1], 0)).toEqual([3, 1]);
});

test("a logarithmic axis leaves out what has no logarithm, and counts it", () => {
  expect(aboveZero([1, 0, -1, null])).toEqual([1, null, null, null]);
  expect(countNotAboveZero({ ...loss, curves: [{ label: "", pod: "", values: [1, 0, -1, null] }] })).toBe(2);
});

describe("runs over each other", () => {
  const run = (name: string, start: string, ...training: JobMetrics["training"]) => ({
    name,
    metrics: { pods: [], notes: [], training: training.map((one) => ({ ...one, start })) },
  });
  const runs = [
    run(
      "first",
      "2026-01-01T00:00:00Z",
      series("loss", [
        [4, 1],
        [2, 2],
      ]),
      series("accuracy", [[0.1]]),
    ),
    run(
      "second",
      "2026-01-05T00:00:00Z",
      series("loss", [
        [5, 2],
        [3, 3],
      ]),
    ),
    { name: "unread", metrics: undefined },
  ];

  test("share the time since the first value of each", () => {
    const [both, accuracy] = overlaid(runs, "elapsed");
    expect(both).toMatchObject({ key: "loss", axis: "elapsed", x: [0, 1] });
    expect(both?.curves.map(({ label, values }) => [label, values])).toEqual([
      ["first", [4, 2]],
      ["second", [5, 3]],
    ]);
    expect(accuracy?.curves.map(({ label }) => label)).toEqual(["first"]);
  });

  test("share steps where programs name them", () => {
    const [both, accuracy] = overlaid(runs, "step");
    expect(both).toMatchObject({ axis: "step", x: [1, 2, 3], leftOut: 0 });
    expect(both?.curves.map(({ values }) => values)).toEqual([
      [4, 2, null],
      [null, 5, 3],
    ]);
    expect(accuracy, "its values have no steps").toMatchObject({ axis: "elapsed", x: [0] });
  });
});
