// One chart with its title and its values, and the controls of how curves are drawn.

import "./charts.css";
import {
  Card,
  CardBody,
  CardTitle,
  FormSelect,
  FormSelectOption,
  Switch,
  ToggleGroup,
  ToggleGroupItem,
} from "@patternfly/react-core";
import { useId } from "react";
import { clock } from "../format/time";
import { messages } from "../messages";
import { type Drawing, frontOf, PlotCanvas, Swatch } from "./chart";
import { type ChartView, smoothings } from "./chart-view";
import { countNotAboveZero, type Plot } from "./curves";
import { titleOf, valueText } from "./metric-words";
import { type Chart, extremes, rankOf, valueAt } from "./metrics-data";

const text = messages.job.metrics;

type ToolsProps = {
  view: ChartView;
  change: (change: Partial<ChartView>) => void;
  /** The axes to choose from; none if there is only one. */
  axes: Record<"time" | "step", string> | undefined;
  axis: "time" | "step";
};

/** How what the training reports is drawn. */
export function DrawingTools({ view, change, axes, axis }: ToolsProps) {
  const id = useId();
  return (
    <div className="job-chart-drawing">
      {axes && (
        <ToggleGroup aria-label={text.axis}>
          {(["time", "step"] as const).map((one) => (
            <ToggleGroupItem
              key={one}
              text={axes[one]}
              buttonId={`${id}-${one}`}
              isSelected={axis === one}
              onChange={() => change({ axis: one })}
            />
          ))}
        </ToggleGroup>
      )}
      <FormSelect
        aria-label={text.smoothing}
        value={view.smoothing}
        className="job-chart-mark"
        onChange={(_event, value) => change({ smoothing: Number(value) })}
      >
        {smoothings.map((weight) => (
          <FormSelectOption key={weight} value={weight} label={weight ? text.smoothed(weight) : text.notSmoothed} />
        ))}
      </FormSelect>
      <Switch
        id={`${id}-log`}
        label={text.logarithmic}
        isChecked={view.isLog}
        onChange={(_event, isLog) => change({ isLog })}
      />
    </div>
  );
}

type CardProps = {
  plot: Plot;
  /** For what the training reports. */
  drawing: Drawing;
  /** The pod whose curves are in front; the highest and the lowest if empty. */
  marked?: string;
  /** The chosen moment, in milliseconds: whose values are shown. */
  moment?: number;
} & Pick<Parameters<typeof PlotCanvas>[0], "at" | "moments" | "onChoose" | "onSelect">;

const plain: Drawing = { isLog: false, smoothing: 0 };

export function ChartCard({ plot, drawing, marked = "", moment, ...places }: CardProps) {
  const title = titleOf(plot.key);
  const format = (value: number) => valueText(value, plot.unit);
  const found = extremes(plot, moment);
  const ofMarked = plot.curves.filter((curve) => curve.pod === marked).map((curve) => curve.label);
  const ends = found ? [...new Set([found.highest[0].label, found.lowest[0].label])] : [];
  const front = marked && ofMarked.length ? ofMarked : ends;
  const notAbove = plot.isTraining && drawing.isLog ? countNotAboveZero(plot) : 0;
  // Without anything above 0, a logarithmic chart would be empty.
  const isLog = drawing.isLog && plot.curves.some(({ values }) => values.some((value) => value !== null && value > 0));
  return (
    <Card isCompact>
      <CardTitle component="h2">
        <bdi>{title}</bdi>
      </CardTitle>
      <CardBody>
        <PlotCanvas
          plot={plot}
          drawing={plot.isTraining ? { ...drawing, isLog } : plain}
          marked={front}
          label={`${title}: ${summaryOf(plot, frontOf(plot, front), moment, format)}`}
          format={format}
          {...places}
        />
        <Legend chart={plot} marked={front} at={moment} format={format} />
        {plot.leftOut > 0 && <p className="job-note">{text.withoutStep(plot.leftOut)}</p>}
        {notAbove > 0 && <p className="job-note">{isLog ? text.notAboveZero(notAbove) : text.noneAboveZero}</p>}
      </CardBody>
    </Card>
  );
}

type LegendProps = { chart: Chart; marked: string[]; at: number | undefined; format: (value: number) => string };

function Legend({ chart, marked, at, format }: LegendProps) {
  const value = (label: string) => {
    const curve = chart.curves.find((one) => one.label === label);
    const found = curve && valueAt(chart, curve, at);
    return found === undefined ? "–" : format(found);
  };
  return (
    <ul className="job-legend job-note">
      <li>{at === undefined ? text.now : clock(at)}</li>
      {frontOf(chart, marked).map((label) => (
        <li key={label}>
          <Swatch chart={chart} marked={marked} label={label} />{" "}
          <bdi>{chart.curves.length > 1 ? nameAndValue(chart, label, at, value(label)) : value(label)}</bdi>
        </li>
      ))}
    </ul>
  );
}

/** `Worker 3 20 % (lowest)`: a Worker that differs from the others is often what slows all of them down. */
function nameAndValue(chart: Chart, label: string, at: number | undefined, value: string): string {
  const rank = rankOf(chart, label, at);
  return rank ? text.rankedValueOf(label, value, text.ranks[rank]) : text.valueOf(label, value);
}

function summaryOf(
  chart: Chart,
  front: readonly string[],
  at: number | undefined,
  format: (value: number) => string,
): string {
  const values = front.flatMap((label) => {
    const curve = chart.curves.find((one) => one.label === label);
    const value = curve && valueAt(chart, curve, at);
    if (value === undefined) return [];
    return [chart.curves.length > 1 ? nameAndValue(chart, label, at, format(value)) : format(value)];
  });
  const when = at === undefined ? text.now : clock(at);
  return values.length ? text.summary(when, values.join(", ")) : text.noValue(when);
}
