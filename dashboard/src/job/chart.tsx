// A chart over time, drawn by uPlot on a canvas. The cursor of all charts of a page moves together; a click chooses the moment.

import "uplot/dist/uPlot.min.css";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { locale } from "../format/locale";
import type { Chart } from "./metrics-data";

const height = 180;
const root = document.documentElement;

// Curves differ by colour and by dashes.
const styles = [
  { token: "global--text--color--link--default", dash: [] },
  { token: "global--icon--color--status--danger--default", dash: [8, 3] },
  { token: "global--icon--color--status--success--default", dash: [2, 2] },
  { token: "global--icon--color--status--info--default", dash: [10, 3, 2, 3] },
  { token: "global--icon--color--status--warning--default", dash: [4, 4] },
  { token: "global--icon--color--status--custom--default", dash: [12, 6] },
];
const powersOfTwo = Array.from({ length: 50 }, (_, power) => 2 ** power);
const shortTime = new Intl.DateTimeFormat(locale, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/** How a curve looks: each its own way if they are few, else only those in front. */
function styleOf(chart: Chart, marked: readonly string[], label: string): (typeof styles)[number] | undefined {
  return styles[frontOf(chart, marked).indexOf(label)];
}

/** The curves in front of the others, by label. */
export function frontOf({ curves }: Chart, marked: readonly string[]): readonly string[] {
  return curves.length <= styles.length ? curves.map((curve) => curve.label) : marked;
}

/** A short piece of a curve, for the text beside its name. */
export function Swatch({ chart, marked, label }: { chart: Chart; marked: readonly string[]; label: string }) {
  const style = styleOf(chart, marked, label);
  return (
    <svg viewBox="0 0 24 8" className="job-swatch" aria-hidden="true" focusable="false">
      <line
        x2="24"
        y1="4"
        y2="4"
        strokeWidth="3"
        stroke={`var(--pf-t--${style?.token ?? "global--border--color--default"})`}
        strokeDasharray={style?.dash.join(" ")}
      />
    </svg>
  );
}

type Props = {
  chart: Chart;
  /** The curves to put in front of the others, by label. */
  marked: readonly string[];
  /** The chosen moment, in milliseconds. */
  at: number | undefined;
  /** What became of the job, in milliseconds: drawn as lines. */
  moments: readonly number[];
  label: string;
  format: (value: number) => string;
  onChoose: (at: number) => void;
};

export function TimeChart({ chart, marked, at, moments, label, format, onChoose }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>();
  const theme = useThemeName();
  const shown = useRef({ at, moments, onChoose });
  shown.current = { at, moments, onChoose };
  const names = JSON.stringify([chart.curves.map((curve) => curve.label), marked]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other curves or another theme need another plot; new points do not.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(optionsOf(chart, marked, element, format, shown), dataOf(chart), element);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [names, theme]);
  useEffect(() => plot.current?.setData(dataOf(chart)), [chart]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: these are drawn over the curves.
  useEffect(() => plot.current?.redraw(false), [at, moments]);
  return <div ref={box} role="img" aria-label={label} className="job-chart" />;
}

function dataOf({ times, curves }: Chart): uPlot.AlignedData {
  return [times, ...curves.map((curve) => curve.values)];
}

type Shown = { current: Pick<Props, "at" | "moments" | "onChoose"> };

function optionsOf(
  chart: Chart,
  marked: readonly string[],
  element: HTMLElement,
  format: (value: number) => string,
  shown: Shown,
): uPlot.Options {
  const token = (name: string) => getComputedStyle(element).getPropertyValue(`--pf-t--${name}`).trim();
  const text = token("global--text--color--regular");
  const grid = token("global--border--color--default");
  const axis = { stroke: text, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  return {
    width: element.clientWidth,
    height,
    // The last time is as long to the right of its place.
    padding: [null, 32, null, null],
    legend: { show: false },
    cursor: { sync: { key: "job" }, y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      // A single sample is in the middle of a minute; uPlot would begin a day with it.
      x: { range: ({ data: [times] }, low, high) => (times.length === 1 ? [low - 30, low + 30] : [low, high]) },
      y: { range: (_plot, low, high) => [Math.min(0, low ?? 0), (high ?? 1) * 1.05 || 1] },
    },
    axes: [
      { ...axis, space: 80, values: (_plot, values) => values.map((time) => shortTime.format(time * 1000)) },
      {
        ...axis,
        size: 88,
        values: (_plot, values) => values.map(format),
        ...(chart.unit.startsWith("bytes") && { incrs: powersOfTwo }),
      },
    ],
    series: [
      {},
      ...chart.curves.map(({ label }): uPlot.Series => {
        const style = styleOf(chart, marked, label);
        return style
          ? {
              label,
              stroke: token(style.token) || text,
              dash: style.dash,
              width: 2,
              spanGaps: true,
              // A line needs two samples.
              points: { show: (plot) => plot.data[0].length === 1, size: 8, fill: token(style.token) || text },
            }
          : { label, stroke: grid, width: 1, spanGaps: true, points: { show: false } };
      }),
    ],
    hooks: {
      draw: [(plot) => drawMoments(plot, shown.current, grid, token("global--border--color--clicked"))],
      ready: [
        (plot) =>
          plot.over.addEventListener("click", () => {
            const { left = -1 } = plot.cursor;
            if (left >= 0) shown.current.onChoose(Math.round(plot.posToVal(left, "x") * 1000));
          }),
      ],
    },
  };
}

function drawMoments(plot: uPlot, { at, moments }: Shown["current"], color: string, chosen: string): void {
  const { ctx, bbox } = plot;
  const line = (time: number, stroke: string, width: number, dash: number[]) => {
    const x = plot.valToPos(time / 1000, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.save();
    ctx.strokeStyle = stroke;
    ctx.lineWidth = width * devicePixelRatio;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  };
  for (const moment of moments) line(moment, color, 1, [4, 4]);
  if (at !== undefined) line(at, chosen, 2, []);
}

/** Changes with the theme: a canvas has no styles. */
function useThemeName(): string {
  const [name, setName] = useState(root.className);
  useEffect(() => {
    const watch = new MutationObserver(() => setName(root.className));
    watch.observe(root, { attributeFilter: ["class"] });
    return () => watch.disconnect();
  }, []);
  return name;
}
