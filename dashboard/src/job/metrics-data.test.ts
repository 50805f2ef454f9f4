import { describe, expect, test } from "vitest";
import {
  align,
  chartsOf,
  extremes,
  type JobMetrics,
  notFinite,
  rankOf,
  span,
  unmeasured,
  valueAt,
} from "./metrics-data";

const second = Date.parse("2026-01-01T00:00:00Z") / 1000;
const pod = (index: number, start: string, cpuMillis: number[]): JobMetrics["pods"][number] => ({
  name: `a-worker-${index}`,
  role: "Worker",
  index,
  start,
  seconds: cpuMillis.map((_, place) => place * 15),
  cpuMillis,
  memoryMib: cpuMillis.map(() => 2),
  measured: [],
});
const nameOf = ({ index }: { index?: number }, gpu?: string) =>
  gpu === undefined ? `Worker ${index}` : `Worker ${index}, GPU ${gpu}`;
const measured = (
  name: NonNullable<JobMetrics["pods"][number]["measured"]>[number]["name"],
  gpu: string,
  values: number[],
) => ({
  name,
  gpu,
  source: "prometheus" as const,
  start: "2026-01-01T00:00:00Z",
  seconds: values.map((_, place) => place * 15),
  values,
});

describe("charts", () => {
  const metrics = {
    pods: [pod(0, "2026-01-01T00:00:00Z", [500, 1000, 1500]), pod(1, "2026-01-01T00:00:15Z", [100, 200])],
    training: [
      {
        name: "loss",
        source: "output" as const,
        start: "2026-01-01T00:00:05.5Z",
        seconds: [0, 1],
        values: ["0.5", "0.25"],
        points: [
          { seconds: 0, value: 0.5, step: 1 },
          { seconds: 0.25, value: 0.25 },
        ],
        notFinite: 2,
        firstNotFinite: "2026-01-01T00:00:06Z",
      },
    ],
    notes: [],
  };

  test("have curves of all pods over the same times, in units of people", () => {
    const [loss, cpu, memory] = chartsOf(metrics, nameOf);
    expect(cpu).toEqual({
      key: "cpu",
      unit: "cores",
      isTraining: false,
      times: [second, second + 15, second + 30],
      curves: [
        { label: "Worker 0", pod: "Worker 0", values: [0.5, 1, 1.5] },
        { label: "Worker 1", pod: "Worker 1", values: [null, 0.1, 0.2] },
      ],
    });
    expect(memory?.curves[1]?.values).toEqual([null, 2 * 2 ** 20, 2 * 2 ** 20]);
    expect(loss).toMatchObject({ key: "loss", unit: "number", curves: [{ values: [0.5, 0.25] }], steps: [1, null] });
    expect(loss?.times).toEqual([second + 5.5, second + 5.75]);
  });

  test("begin with what the training reports, then GPUs", () => {
    const gpu = { ...pod(0, "2026-01-01T00:00:00Z", [1]), measured: [measured("gpuUtilizationPercent", "0", [90])] };
    const charts = chartsOf({ ...metrics, pods: [gpu] }, nameOf);
    expect(charts.map(({ key }) => key)).toEqual(["loss", "gpuUtilizationPercent", "cpu", "memory"]);
  });

  test("leave out values that are no numbers, and say so", () => {
    expect(notFinite(metrics)).toEqual([{ name: "loss", count: 2, first: (second + 6) * 1000 }]);
    expect(notFinite({ ...metrics, training: [] })).toEqual([]);
  });

  test("are none where nothing was sampled", () => {
    expect(chartsOf({ pods: [pod(0, "2026-01-01T00:00:00Z", [])], training: [], notes: [] }, nameOf)).toEqual([]);
    expect(align([{ label: "x", pod: "x", start: "", seconds: [0], values: [1] }])).toEqual({
      times: [],
      curves: [{ label: "x", pod: "x", values: [] }],
    });
    expect(span([])).toBeUndefined();
  });

  test("say the value at a moment, and which curve is highest and lowest", () => {
    const [, cpu] = chartsOf(metrics, nameOf);
    if (!cpu) throw new Error("no chart");
    const at = (seconds: number) => (second + seconds) * 1000;
    expect(cpu.curves.map((curve) => valueAt(cpu, curve, at(20)))).toEqual([1, 0.1]);
    expect(cpu.curves.map((curve) => valueAt(cpu, curve, at(1)))).toEqual([0.5, undefined]);
    expect(cpu.curves.map((curve) => valueAt(cpu, curve, undefined))).toEqual([1.5, 0.2]);
    const found = extremes(cpu, undefined);
    expect([found?.highest[0].label, found?.lowest[0].label]).toEqual(["Worker 0", "Worker 1"]);
    expect(extremes(cpu, at(-60))).toBeUndefined();
    expect(span([cpu])).toEqual([at(0), at(30)]);
  });

  test("show the network and GPUs of each Worker, and each of several GPUs", () => {
    const wide = {
      ...pod(0, "2026-01-01T00:00:00Z", []),
      measured: [
        measured("networkReceivedKib", "", [1, 2]),
        measured("gpuUtilizationPercent", "0", [90, 20]),
        measured("gpuUtilizationPercent", "1", [91, 92]),
        measured("powerWatts", "0", [600]),
      ],
    };
    const narrow = {
      ...pod(1, "2026-01-01T00:00:00Z", []),
      measured: [measured("gpuUtilizationPercent", "3", [50, 50])],
    };
    const charts = chartsOf({ pods: [wide, narrow], training: [], notes: [] }, nameOf);
    expect(charts.map(({ key, unit }) => [key, unit])).toEqual([
      ["gpuUtilizationPercent", "percent"],
      ["powerWatts", "watts"],
      ["networkReceivedKib", "bytesPerSecond"],
    ]);
    const [utilization, , network] = charts;
    expect(utilization?.curves.map(({ label, pod }) => [label, pod])).toEqual([
      ["Worker 0, GPU 0", "Worker 0"],
      ["Worker 0, GPU 1", "Worker 0"],
      ["Worker 1", "Worker 1"],
    ]);
    expect(network?.curves).toEqual([{ label: "Worker 0", pod: "Worker 0", values: [1024, 2048] }]);
    if (!utilization || !network) throw new Error("no chart");
    const ranks = (at: number | undefined) => utilization.curves.map(({ label }) => rankOf(utilization, label, at));
    expect(ranks(undefined)).toEqual(["lowest", "highest", undefined]);
    expect(ranks(second * 1000)).toEqual([undefined, "highest", "lowest"]);
    expect(rankOf(network, "Worker 0", undefined)).toBeUndefined();
  });

  test("are missing for GPUs where the job has some, and for the network, unless there are series", () => {
    const charts = (name: Parameters<typeof measured>[0]) =>
      chartsOf(
        {
          pods: [{ ...pod(0, "2026-01-01T00:00:00Z", []), measured: [measured(name, "", [1])] }],
          training: [],
          notes: [],
        },
        nameOf,
      );
    expect(unmeasured(8, [])).toEqual(["gpu", "network"]);
    expect(unmeasured(0, [])).toEqual(["network"]);
    expect(unmeasured(undefined, [])).toEqual(["network"]);
    expect(unmeasured(8, charts("powerWatts"))).toEqual(["network"]);
    expect(unmeasured(8, charts("networkSentKib"))).toEqual(["gpu"]);
    expect(unmeasured(0, charts("networkSentKib"))).toEqual([]);
  });
});
