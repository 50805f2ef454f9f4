// A chart, drawn by uPlot on a canvas. The cursor of all charts with the same axis moves together; a click chooses the place
// under it, and dragging chooses a part of the axis.

import "uplot/dist/uPlot.min.css";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { axisNumber } from "../format/quantity";
import { duration, timeOfDay } from "../format/time";
import { type Axis, aboveZero, type Plot, smoothed } from "./curves";
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

/** How curves are drawn. */
export type Drawing = {
  isLog: boolean;
  /** The weight of the values before: 0 to draw the values themselves. */
  smoothing: number;
};

type Props = {
  plot: Plot;
  drawing: Drawing;
  /** The curves to put in front of the others, by label. */
  marked: readonly string[];
  /** Marked places of the axis, in its unit: the chosen one, and what became of the job. */
  at?: number;
  moments?: readonly number[];
  label: string;
  format: (value: number) => string;
  /** What a click on a place of the axis does, and dragging over a part of it. */
  onChoose?: (x: number) => void;
  onSelect?: (from: number, to: number) => void;
};

const none: readonly number[] = [];
// A hand that clicks may move a little.
const leastDrag = 8;

export function PlotCanvas({ plot, drawing, marked, at, moments = none, label, format, onChoose, onSelect }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const made = useRef<uPlot>();
  const theme = useThemeName();
  const shown = useRef({ at, moments, onChoose, onSelect });
  shown.current = { at, moments, onChoose, onSelect };
  const { isLog, smoothing } = drawing;
  const names = JSON.stringify([plot.curves.map((curve) => curve.label), marked, plot.axis, isLog, smoothing > 0]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: other curves or another theme need another canvas; new points do not.
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const canvas = new uPlot(
      optionsOf(plot, drawing, marked, element, format, shown),
      dataOf(plot, isLog, smoothing),
      element,
    );
    made.current = canvas;
    const watch = new ResizeObserver(() => canvas.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    // A canvas is not drawn again when the page's font arrives.
    void document.fonts.ready.then(() => made.current === canvas && canvas.redraw(false, true));
    return () => {
      watch.disconnect();
      canvas.destroy();
      made.current = undefined;
    };
  }, [names, theme]);
  useEffect(() => made.current?.setData(dataOf(plot, isLog, smoothing)), [plot, isLog, smoothing]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: these are drawn over the curves.
  useEffect(() => made.current?.redraw(false), [at, moments]);
  return <div ref={box} role="img" aria-label={label} className="job-chart" />;
}

/** Behind a smoothed curve are the values themselves. */
function dataOf({ x, curves }: Plot, isLog: boolean, smoothing: number): uPlot.AlignedData {
  const drawn = curves.map(({ values }) => (isLog ? aboveZero(values) : values));
  const data = smoothing ? [...drawn, ...drawn.map((values) => smoothed(values, smoothing))] : drawn;
  return [[...x], ...data];
}

type Shown = { current: Pick<Props, "at" | "onChoose" | "onSelect"> & { moments: readonly number[] } };

const axisTexts: Record<Axis, (value: number) => string> = {
  time: (seconds) => timeOfDay(seconds * 1000),
  elapsed: duration,
  step: axisNumber,
};

function optionsOf(
  plot: Plot,
  { isLog, smoothing }: Drawing,
  marked: readonly string[],
  element: HTMLElement,
  format: (value: number) => string,
  shown: Shown,
): uPlot.Options {
  const token = (name: string) => getComputedStyle(element).getPropertyValue(`--pf-t--${name}`).trim();
  const text = token("global--text--color--regular");
  const grid = token("global--border--color--default");
  const font = `12px ${getComputedStyle(element).fontFamily}`;
  const axis = { stroke: text, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const seriesOf = (label: string, isBehind: boolean): uPlot.Series => {
    const style = styleOf(plot, marked, label);
    if (!style || isBehind) return { label, stroke: grid, width: 1, spanGaps: true, points: { show: false } };
    return {
      label,
      stroke: token(style.token) || text,
      dash: style.dash,
      width: 2,
      spanGaps: true,
      // A line needs two samples.
      points: { show: (canvas) => canvas.data[0].length === 1, size: 8, fill: token(style.token) || text },
    };
  };
  return {
    width: element.clientWidth,
    height,
    // The last time is as long to the right of its place.
    padding: [null, 32, null, null],
    legend: { show: false },
    cursor: {
      // Only the cursor moves together: what is dragged in one chart is reported by that chart.
      sync: { key: `job-${plot.axis}`, filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" } },
      y: false,
      drag: { x: shown.current.onSelect !== undefined, y: false, setScale: false },
      points: { size: 6 },
    },
    scales: {
      x: {
        time: plot.axis === "time",
        // A single sample is in the middle of a minute; uPlot would begin a day with it.
        range: ({ data: [places] }, low, high) => (places.length === 1 ? [low - 30, low + 30] : [low, high]),
      },
      y: isLog ? { distr: 3, range: logRange } : { range: plot.isTraining ? closeRange : rangeFromZero },
    },
    axes: [
      { ...axis, space: 80, values: (_plot, values) => values.map(axisTexts[plot.axis]) },
      {
        ...axis,
        size: 88,
        // Between powers of ten, a logarithmic axis has lines without numbers.
        values: (_plot, values) => values.map((value) => (value === null ? "" : format(value))),
        ...(plot.unit.startsWith("bytes") && { incrs: powersOfTwo }),
      },
    ],
    series: [
      {},
      ...plot.curves.map(({ label }) => seriesOf(label, smoothing > 0)),
      ...(smoothing > 0 ? plot.curves.map(({ label }) => seriesOf(label, false)) : []),
    ],
    hooks: {
      draw: [(canvas) => drawMoments(canvas, shown.current, grid, token("global--border--color--clicked"))],
      setSelect: [(canvas) => select(canvas, shown.current)],
      ready: [
        (canvas) =>
          canvas.over.addEventListener("click", () => {
            const { left = -1 } = canvas.cursor;
            if (left >= 0) shown.current.onChoose?.(canvas.posToVal(left, "x"));
          }),
      ],
    },
  };
}

function select(canvas: uPlot, { onChoose, onSelect }: Shown["current"]): void {
  const { left, width } = canvas.select;
  if (!width) return;
  canvas.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (width < leastDrag) onChoose?.(canvas.posToVal(left, "x"));
  else onSelect?.(canvas.posToVal(left, "x"), canvas.posToVal(left + width, "x"));
}

type Low = number | null;

/** What is used begins at nothing. */
function rangeFromZero(_plot: uPlot, low: Low, high: Low): uPlot.Range.MinMax {
  return [Math.min(0, low ?? 0), (high ?? 1) * 1.05 || 1];
}

/** What is learned may change little, far from 0. */
function closeRange(_plot: uPlot, low: Low, high: Low): uPlot.Range.MinMax {
  if (low === null || high === null) return [0, 1];
  const space = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - space, high + space];
}

function logRange(_plot: uPlot, low: Low, high: Low): uPlot.Range.MinMax {
  return low === null || high === null ? [0.1, 1] : uPlot.rangeLog(low, high, 10, true);
}

function drawMoments(plot: uPlot, { at, moments }: Shown["current"], color: string, chosen: string): void {
  const { ctx, bbox } = plot;
  const line = (at: number, stroke: string, width: number, dash: number[]) => {
    const x = plot.valToPos(at, "x", true);
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
