// How curves are looked at: over steps instead of time, a part of them, smoothed, several runs over each other. The values stay
// as they were reported; only what is drawn is smoothed.

import type { Chart, JobMetrics } from "./metrics-data";
import { trainingChart } from "./metrics-data";

/** A part of the time, in milliseconds since 1970; an end without a limit is infinite. */
export type Range = readonly [from: number, to: number];

/** What a chart has along its horizontal axis. `elapsed`: seconds since the first value of the run. */
export type Axis = "time" | "step" | "elapsed";

/** A chart as it is drawn: where its values are along the axis, in order. */
export type Plot = Chart & {
  axis: Axis;
  x: readonly number[];
  /** How many values have no place on this axis. */
  leftOut: number;
};

/** A chart over time, or over steps if its program names them. */
export function plotOf(chart: Chart, axis: "time" | "step"): Plot {
  return (axis === "step" && overSteps(chart)) || { ...chart, axis: "time", x: chart.times, leftOut: 0 };
}

/** A step that was trained again, after a restart, has its last value. */
function overSteps(chart: Chart): Plot | undefined {
  const places = new Map<number, number>();
  chart.steps?.forEach((step, place) => {
    if (step !== null) places.set(step, place);
  });
  if (!chart.steps || !places.size) return undefined;
  const inOrder = [...places].sort(([a], [b]) => a - b);
  const taken = (values: readonly (number | null)[]) => inOrder.map(([, place]) => values[place] ?? null);
  return {
    ...chart,
    axis: "step",
    x: inOrder.map(([step]) => step),
    times: inOrder.map(([, place]) => chart.times[place] ?? 0),
    steps: inOrder.map(([step]) => step),
    curves: chart.curves.map((curve) => ({ ...curve, values: taken(curve.values) })),
    leftOut: chart.steps.filter((step) => step === null).length,
  };
}

/** The part of a chart within a range. */
export function within(chart: Chart, range: Range | undefined): Chart {
  if (!range) return chart;
  const isIn = chart.times.map((time) => time * 1000 >= range[0] && time * 1000 <= range[1]);
  const part = <T>(values: readonly T[]): T[] => values.filter((_value, place) => isIn[place]);
  return {
    ...chart,
    times: part(chart.times),
    curves: chart.curves.map((curve) => ({ ...curve, values: part(curve.values) })),
    ...(chart.steps && { steps: part(chart.steps) }),
  };
}

/** An exponential moving average; `weight` is that of the values before, from 0 to below 1. */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0;
  let count = 0;
  return values.map((value) => {
    if (value === null) return null;
    count += 1;
    sum = sum * weight + value * (1 - weight);
    // Without this, the first values would be drawn towards 0.
    return sum / (1 - weight ** count);
  });
}

/** A logarithm exists of what is above 0 only. */
export function aboveZero(values: readonly (number | null)[]): (number | null)[] {
  return values.map((value) => (value !== null && value > 0 ? value : null));
}

export function countNotAboveZero({ curves }: Chart): number {
  return curves.flatMap(({ values }) => values).filter((value) => value !== null && value <= 0).length;
}

export type Run = { name: string; metrics: JobMetrics | undefined };

/** One chart for each metric that a run reports, with a curve for each run: over steps if a run names some, or over the time of each run. */
export function overlaid(runs: readonly Run[], wanted: "step" | "elapsed"): Plot[] {
  const all = runs.flatMap(({ name, metrics }) => {
    const charts = (metrics?.training ?? []).map(trainingChart);
    const start = Math.min(...charts.flatMap(({ times }) => times.slice(0, 1)));
    return charts.map((chart) => ({ run: name, chart, start }));
  });
  return [...new Set(all.map(({ chart }) => chart.key))].map((key): Plot => {
    const own = all.filter(({ chart }) => chart.key === key);
    const axis = wanted === "step" && hasSteps(own.map(({ chart }) => chart)) ? "step" : "elapsed";
    const curves = own.map(({ run, chart, start }) => ({ run, ...placed(chart, axis, start) }));
    const x = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
    const place = new Map(x.map((at, index) => [at, index]));
    return {
      key,
      axis,
      unit: own[0]?.chart.unit ?? "number",
      isTraining: true,
      x,
      times: x,
      leftOut: curves.reduce((sum, { leftOut }) => sum + leftOut, 0),
      curves: curves.map(({ run, ...curve }) => {
        const values: (number | null)[] = new Array(x.length).fill(null);
        curve.x.forEach((at, index) => {
          values[place.get(at) ?? 0] = curve.values[index] ?? null;
        });
        return { label: run, pod: run, values };
      }),
    };
  });
}

function placed(chart: Chart, axis: "step" | "elapsed", start: number) {
  const values = (one: Chart) => one.curves[0]?.values ?? [];
  if (axis === "elapsed") return { x: chart.times.map((time) => time - start), values: values(chart), leftOut: 0 };
  const plot = overSteps(chart);
  return plot
    ? { x: plot.x, values: values(plot), leftOut: plot.leftOut }
    : { x: [], values: [], leftOut: values(chart).length };
}

/** Whether any program names steps. */
export function hasSteps(charts: readonly Chart[]): boolean {
  return charts.some(({ steps }) => steps !== undefined);
}
