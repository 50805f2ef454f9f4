// The charts of a job, one moment over all of them, and how they are looked at. Everything that the mouse can do on a chart is
// a control beside the charts too.

import { Button, FormSelect, FormSelectOption, Grid, GridItem } from "@patternfly/react-core";
import { useState } from "react";
import { clock } from "../format/time";
import { messages } from "../messages";
import { ChartCard, DrawingTools } from "./chart-card";
import { type ChartView, useChartView } from "./chart-view";
import { useMoment } from "./cursor";
import { hasSteps, plotOf, type Range, within } from "./curves";
import { type Chart, span } from "./metrics-data";

const text = messages.job.metrics;

export function MetricCharts({ charts, moments }: { charts: Chart[]; moments: number[] }) {
  const [at, choose] = useMoment();
  const [view, change] = useChartView();
  const [marked, setMarked] = useState("");
  const parts = charts.map((chart) => within(chart, view.range)).filter(({ times }) => times.length > 0);
  const pods = [
    ...new Set(charts.find(({ isTraining, curves }) => !isTraining && curves.length > 1)?.curves.map(({ pod }) => pod)),
  ];
  return (
    <>
      <div className="job-chart-tools">
        <MomentSlider charts={parts} at={at} onChoose={choose} />
        {pods.length > 1 && (
          <FormSelect
            aria-label={text.mark}
            value={marked}
            className="job-chart-mark"
            onChange={(_event, value) => setMarked(value)}
          >
            <FormSelectOption value="" label={text.markHighest} />
            {pods.map((pod) => (
              <FormSelectOption key={pod} value={pod} label={pod} />
            ))}
          </FormSelect>
        )}
      </div>
      <div className="job-chart-tools">
        <RangeSliders charts={charts} range={view.range} onRange={(range) => change({ range })} />
        {charts.some(({ isTraining }) => isTraining) && (
          <DrawingTools
            view={view}
            change={change}
            axes={hasSteps(charts) ? { time: text.axes.time, step: text.axes.step } : undefined}
            axis={view.axis ?? "time"}
          />
        )}
      </div>
      {/* The range may be that of another job. */}
      {!parts.length && <p className="job-note">{text.noneInRange}</p>}
      <Grid hasGutter>
        {parts.map((chart) => (
          <GridItem key={chart.key} xl={6}>
            <JobChart
              chart={chart}
              view={view}
              marked={marked}
              at={at}
              moments={moments}
              choose={choose}
              change={change}
            />
          </GridItem>
        ))}
      </Grid>
    </>
  );
}

type JobChartProps = {
  chart: Chart;
  view: ChartView;
  marked: string;
  at: number | undefined;
  moments: readonly number[];
  choose: (at: number) => void;
  change: (change: Partial<ChartView>) => void;
};

/** A chart whose places along the axis are moments of the job, also where it shows steps. */
function JobChart({ chart, view, marked, at, moments, choose, change }: JobChartProps) {
  const plot = plotOf(chart, view.axis ?? "time");
  const momentAt = (x: number) => Math.round((plot.axis === "step" ? timeOfStep(plot.x, plot.times, x) : x) * 1000);
  const xAt = (moment: number) => {
    if (plot.axis !== "step") return moment / 1000;
    const place = plot.times.findLastIndex((time) => time * 1000 <= moment);
    return plot.x[place];
  };
  return (
    <ChartCard
      plot={plot}
      drawing={view}
      marked={marked}
      moment={at}
      at={at === undefined ? undefined : xAt(at)}
      // Over steps, times of the job have no place between the values.
      moments={plot.axis === "time" ? moments.map((moment) => moment / 1000) : undefined}
      onChoose={(x) => choose(momentAt(x))}
      onSelect={(from, to) => {
        // Steps that were trained again may be in another order than their times.
        const [first = 0, last = 0] = [momentAt(from), momentAt(to)].sort((a, b) => a - b);
        if (first < last) change({ range: [first, last] });
      }}
    />
  );
}

/** The time of the step that is next to a place between steps. */
function timeOfStep(steps: readonly number[], times: readonly number[], at: number): number {
  let nearest = 0;
  steps.forEach((step, place) => {
    if (Math.abs(step - at) < Math.abs((steps[nearest] ?? 0) - at)) nearest = place;
  });
  return times[nearest] ?? 0;
}

type MomentProps = { charts: Chart[]; at: number | undefined; onChoose: (at: number) => void };

/** Chooses the moment with the keyboard. */
function MomentSlider({ charts, at, onChoose }: MomentProps) {
  const ends = span(charts);
  if (!ends) return null;
  return <TimeSlider label={text.moment} ends={ends} value={at ?? ends[1]} onChange={onChoose} />;
}

type RangeProps = { charts: Chart[]; range: Range | undefined; onRange: (range: Range | undefined) => void };

/** Chooses a part of the time with the keyboard. An end that is at the end of the charts moves with it. */
function RangeSliders({ charts, range, onRange }: RangeProps) {
  const ends = span(charts);
  if (!ends || ends[0] === ends[1]) return null;
  const [from, to] = [Math.max(range?.[0] ?? ends[0], ends[0]), Math.min(range?.[1] ?? ends[1], ends[1])];
  const set = (first: number, last: number) =>
    onRange([first <= ends[0] ? Number.NEGATIVE_INFINITY : first, last >= ends[1] ? Number.POSITIVE_INFINITY : last]);
  return (
    <>
      <TimeSlider label={text.from} ends={ends} value={from} onChange={(first) => first < to && set(first, to)} />
      <TimeSlider label={text.to} ends={ends} value={to} onChange={(last) => last > from && set(from, last)} />
      <Button variant="link" isInline isAriaDisabled={!range} onClick={() => onRange(undefined)}>
        {text.wholeRange}
      </Button>
    </>
  );
}

type SliderProps = {
  label: string;
  /** In milliseconds, as the value. */
  ends: readonly [number, number];
  value: number;
  onChange: (value: number) => void;
};

/** In whole seconds, so that every press of a key leads to another time. */
function TimeSlider({ label, ends, value, onChange }: SliderProps) {
  const [first, last] = [Math.floor(ends[0] / 1000), Math.ceil(ends[1] / 1000)];
  const shown = Math.min(last, Math.max(first, Math.round(value / 1000)));
  return (
    <label className="job-chart-slider">
      <span>{label}</span>
      <input
        type="range"
        min={first}
        max={last}
        value={shown}
        aria-valuetext={clock(shown * 1000)}
        onChange={(event) => onChange(Number(event.target.value) * 1000)}
      />
    </label>
  );
}
