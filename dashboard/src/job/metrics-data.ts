// Turns what the service sampled into charts: aligned columns, one of times and one for each curve.

import type { Schemas } from "../api/client";

export type JobMetrics = Schemas["JobMetrics"];
type PodSeries = JobMetrics["pods"][number];
type Measured = NonNullable<NonNullable<PodSeries["measured"]>[number]["name"]>;

export type Curve = {
  label: string;
  /** The pod that it is about; a pod with several GPUs has several curves. */
  pod: string;
  values: (number | null)[];
};
export type Chart = {
  key: string;
  unit: "cores" | "bytes" | "bytesPerSecond" | "percent" | "watts" | "number";
  /** Whether the program reported it, rather than the cluster measured it. */
  isTraining: boolean;
  /** Seconds since 1970, in order. */
  times: number[];
  curves: Curve[];
  /** The step of the training at each time, if the program names any. */
  steps?: (number | null)[];
};

/** What pods use that no chart shows. A job without GPUs uses none. */
export function unmeasured(gpus: number | undefined, charts: readonly Chart[]): readonly ("gpu" | "network")[] {
  const has = (keys: readonly string[]) => charts.some((chart) => keys.includes(chart.key));
  const missing: ("gpu" | "network")[] = [];
  if (gpus && !has(["gpuUtilizationPercent", "gpuMemoryMib", "powerWatts"])) missing.push("gpu");
  if (!has(["networkReceivedKib", "networkSentKib"])) missing.push("network");
  return missing;
}

type Points = {
  label: string;
  pod: string;
  start: string;
  seconds: readonly number[];
  values: readonly (number | null)[];
};

const kibibyte = 2 ** 10;
const mebibyte = 2 ** 20;

type MeasuredChart = { key: Measured; unit: Chart["unit"]; factor: number };

/** The charts of what was measured, and by how much a value is multiplied. */
const gpuCharts: readonly MeasuredChart[] = [
  { key: "gpuUtilizationPercent", unit: "percent", factor: 1 },
  { key: "gpuMemoryMib", unit: "bytes", factor: mebibyte },
  { key: "powerWatts", unit: "watts", factor: 1 },
];
const networkCharts: readonly MeasuredChart[] = [
  { key: "networkReceivedKib", unit: "bytesPerSecond", factor: kibibyte },
  { key: "networkSentKib", unit: "bytesPerSecond", factor: kibibyte },
];

/** Names a pod, or one of its GPUs if it has several. */
export type NameOf = (pod: { role?: string; index?: number }, gpu?: string) => string;

/** What the training reports comes first, then what is scarce: GPUs, CPU and memory, the network. */
export function chartsOf({ pods, training }: JobMetrics, nameOf: NameOf): Chart[] {
  const sampled = pods.filter((pod) => pod.seconds.length);
  const of = (values: (pod: JobMetrics["pods"][number]) => number[]) =>
    sampled.map((pod) => ({
      label: nameOf(pod),
      pod: nameOf(pod),
      start: pod.start ?? "",
      seconds: pod.seconds,
      values: values(pod),
    }));
  const measured = ({ key, unit, factor }: MeasuredChart): Chart => {
    const all = pods.flatMap((pod) => measuredOf(pod, key, factor, nameOf));
    return { key, unit, isTraining: false, ...align(all) };
  };
  const usage = (key: string, unit: Chart["unit"], values: Parameters<typeof of>[0]): Chart => ({
    key,
    unit,
    isTraining: false,
    ...align(of(values)),
  });
  const charts: Chart[] = [
    ...training.map(trainingChart),
    ...gpuCharts.map(measured),
    usage("cpu", "cores", (pod) => pod.cpuMillis.map((value) => value / 1000)),
    usage("memory", "bytes", (pod) => pod.memoryMib.map((value) => value * mebibyte)),
    ...networkCharts.map(measured),
  ];
  return charts.filter((chart) => chart.times.length > 0);
}

export function trainingChart({ name = "", start = "", points }: JobMetrics["training"][number]): Chart {
  const seconds = points.map((point) => point.seconds);
  const curve = { label: name, pod: name, start, seconds, values: points.map((point) => point.value) };
  const chart: Chart = {
    key: name,
    unit: name === "progress" ? "percent" : "number",
    isTraining: true,
    ...align([curve]),
  };
  const steps = align([{ ...curve, values: points.map((point) => point.step ?? null) }]).curves[0]?.values;
  return steps?.some((step) => step !== null) ? { ...chart, steps } : chart;
}

/** The metrics of which some values are NaN or infinite: no chart shows those. */
export function notFinite({ training }: JobMetrics): { name: string; count: number; first: number | undefined }[] {
  return training
    .filter((series) => series.notFinite > 0)
    .map(({ name = "", notFinite, firstNotFinite }) => ({
      name,
      count: notFinite,
      first: firstNotFinite ? Date.parse(firstNotFinite) : undefined,
    }));
}

function measuredOf(pod: PodSeries, key: Measured, factor: number, nameOf: NameOf): Points[] {
  const found = (pod.measured ?? []).filter((series) => series.name === key);
  return found.map(({ gpu, start = "", seconds, values }) => ({
    label: found.length > 1 ? nameOf(pod, gpu) : nameOf(pod),
    pod: nameOf(pod),
    start,
    seconds,
    values: values.map((value) => value * factor),
  }));
}

/** Curves over the same times; where one has no point, it has `null`. */
export function align(all: readonly Points[]): Pick<Chart, "times" | "curves"> {
  const times = [...new Set(all.flatMap(timesOf))].sort((a, b) => a - b);
  const place = new Map(times.map((time, index) => [time, index]));
  const curves = all.map((points) => {
    const values: (number | null)[] = new Array(times.length).fill(null);
    timesOf(points).forEach((time, index) => {
      const value = points.values[index];
      values[place.get(time) ?? 0] = value ?? null;
    });
    return { label: points.label, pod: points.pod, values };
  });
  return { times, curves };
}

function timesOf({ start, seconds }: Points): number[] {
  const first = Date.parse(start) / 1000;
  return Number.isNaN(first) ? [] : seconds.map((second) => first + second);
}

/** The value of a curve at a moment, in milliseconds: its last point at or before it; without a moment, its last point. */
export function valueAt({ times }: Chart, { values }: Curve, at: number | undefined): number | undefined {
  for (let index = times.length - 1; index >= 0; index -= 1) {
    if (at !== undefined && (times[index] ?? 0) * 1000 > at) continue;
    const value = values[index];
    if (value !== null && value !== undefined) return value;
  }
  return undefined;
}

/** The curves with the highest and the lowest value at a moment. */
export function extremes(
  chart: Chart,
  at: number | undefined,
): { highest: [Curve, number]; lowest: [Curve, number] } | undefined {
  const found = chart.curves
    .map((curve): [Curve, number | undefined] => [curve, valueAt(chart, curve, at)])
    .filter((one): one is [Curve, number] => one[1] !== undefined)
    .sort(([, a], [, b]) => b - a);
  const [highest] = found;
  const lowest = found.at(-1);
  return highest && lowest ? { highest, lowest } : undefined;
}

/** Says which of several curves is the highest and which the lowest at a moment; nothing if all are the same. */
export function rankOf(chart: Chart, label: string, at: number | undefined): "highest" | "lowest" | undefined {
  const found = extremes(chart, at);
  if (!found || found.highest[1] === found.lowest[1]) return undefined;
  if (found.highest[0].label === label) return "highest";
  return found.lowest[0].label === label ? "lowest" : undefined;
}

/** The time that all charts share, in milliseconds. */
export function span(charts: readonly Chart[]): [number, number] | undefined {
  const ends = charts.flatMap(({ times }) => [times[0], times.at(-1)]).filter((time) => time !== undefined);
  return ends.length ? [Math.min(...ends) * 1000, Math.max(...ends) * 1000] : undefined;
}
