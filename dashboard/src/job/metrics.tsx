// What the job used and reported over time: one chart for each, and one moment over all of them.

import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Form,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  Grid,
  GridItem,
  HelperText,
  HelperTextItem,
  TextInput,
} from "@patternfly/react-core";
import ChartLineIcon from "@patternfly/react-icons/dist/esm/icons/chart-line-icon";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type FormEvent, useMemo, useState } from "react";
import { useSearchParams } from "react-router-dom";
import { keys } from "../api/cache";
import { ask, client } from "../api/client";
import { ErrorAlert, ErrorState, LoadingLines, NothingHere } from "../components/states";
import { axisNumber, bytes, number } from "../format/quantity";
import { clock } from "../format/time";
import { messages } from "../messages";
import { frontOf, Swatch, TimeChart } from "./chart";
import { useMoment } from "./cursor";
import { type Chart, chartsOf, extremes, notFinite, rankOf, span, unmeasured, valueAt } from "./metrics-data";
import type { JobTab } from "./tab";
import { timelineOf } from "./timeline-items";
import { type Ref, useJobEvents } from "./use-job";

const text = messages.job.metrics;
// The service samples every 15 s.
const sampleInterval = 15_000;

export function Metrics({ job, jobRef, live }: JobTab) {
  const [address, setAddress] = useSearchParams();
  const patterns = address.getAll("pattern").filter(Boolean);
  const metrics = useMetrics(jobRef, patterns, live);
  const { data: events = [] } = useJobEvents(jobRef, live);
  const charts = useMemo(() => (metrics.data ? chartsOf(metrics.data, nameOf) : []), [metrics.data]);
  const moments = useMemo(() => timelineOf(job, events).map((moment) => Date.parse(moment.at)), [job, events]);
  const setPatterns = (to: string[]) =>
    setAddress(
      (before) => {
        const after = new URLSearchParams(before);
        after.delete("pattern");
        for (const pattern of to) after.append("pattern", pattern);
        return after;
      },
      { replace: true },
    );
  const failed = metrics.error && !metrics.data;
  return (
    <>
      {failed ? (
        <ErrorState error={metrics.error} onRetry={() => void metrics.refetch()} />
      ) : !metrics.data ? (
        <LoadingLines lines={8} />
      ) : (
        <>
          {metrics.error && (
            <ErrorAlert error={metrics.error} title={messages.job.stale} onRetry={() => void metrics.refetch()} />
          )}
          {charts.length ? (
            <Charts charts={charts} moments={moments} />
          ) : (
            <NothingHere title={text.none} icon={ChartLineIcon}>
              {live ? text.noneYet : text.noneEnded}
            </NothingHere>
          )}
          {notFinite(metrics.data).map(({ name, count, first }) => (
            <Alert
              key={name}
              isInline
              isPlain
              variant="warning"
              component="p"
              title={<bdi>{text.notFinite(titleOf(name), count, first === undefined ? "" : clock(first))}</bdi>}
            />
          ))}
          {metrics.data.notes.map((note) => (
            <Alert key={note} isInline isPlain variant="info" component="p" title={<bdi>{note}</bdi>} />
          ))}
          <Unmeasured missing={unmeasured(job.row?.gpus, charts)} />
        </>
      )}
      <Patterns patterns={patterns} onChange={setPatterns} />
    </>
  );
}

function titleOf(key: string): string {
  return key in text.titles ? text.titles[key as keyof typeof text.titles] : key;
}

function Unmeasured({ missing }: { missing: ReturnType<typeof unmeasured> }) {
  if (!missing.length) return null;
  return (
    <Card isCompact className="job-unmeasured">
      <CardTitle component="h2">{text.unmeasured.title}</CardTitle>
      <CardBody>
        <p>{text.unmeasured.body}</p>
        <dl>
          {missing.map((key) => (
            <div key={key}>
              <dt>{text.unmeasured[key].term}</dt>
              <dd>{text.unmeasured[key].source}</dd>
            </div>
          ))}
        </dl>
      </CardBody>
    </Card>
  );
}

function nameOf({ role, index }: { role?: string; index?: number }, gpu?: string): string {
  const pod = index === undefined ? (role ?? "") : messages.job.workers.name(index);
  return gpu === undefined ? pod : text.gpuOf(pod, gpu);
}

function useMetrics(jobRef: Ref, pattern: string[], live: boolean) {
  return useQuery({
    queryKey: [...keys.job(jobRef), "metrics", pattern],
    queryFn: ({ signal }) =>
      ask(
        client.GET("/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/metrics", {
          params: { path: jobRef, query: { pattern } },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    refetchInterval: live ? sampleInterval : false,
  });
}

function Charts({ charts, moments }: { charts: Chart[]; moments: number[] }) {
  const [at, choose] = useMoment();
  const [marked, setMarked] = useState("");
  const pods = [...new Set(charts.find((chart) => chart.curves.length > 1)?.curves.map((curve) => curve.pod))];
  return (
    <>
      <div className="job-chart-tools">
        <Slider charts={charts} at={at} onChoose={choose} />
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
      <Grid hasGutter>
        {charts.map((chart) => (
          <GridItem key={chart.key} xl={6}>
            <ChartCard chart={chart} marked={marked} at={at} moments={moments} onChoose={choose} />
          </GridItem>
        ))}
      </Grid>
    </>
  );
}

type CardProps = {
  chart: Chart;
  marked: string;
  at: number | undefined;
  moments: number[];
  onChoose: (at: number) => void;
};

function ChartCard({ chart, marked, at, moments, onChoose }: CardProps) {
  const title = titleOf(chart.key);
  const format = (value: number) => shown(value, chart.unit);
  const found = extremes(chart, at);
  const ofMarked = chart.curves.filter((curve) => curve.pod === marked).map((curve) => curve.label);
  const front = marked ? ofMarked : found ? [...new Set([found.highest[0].label, found.lowest[0].label])] : [];
  const summary = summaryOf(chart, front, at, format);
  return (
    <Card isCompact>
      <CardTitle component="h2">
        <bdi>{title}</bdi>
      </CardTitle>
      <CardBody>
        <TimeChart
          chart={chart}
          marked={front}
          at={at}
          moments={moments}
          label={`${title}: ${summary}`}
          format={format}
          onChoose={onChoose}
        />
        <Legend chart={chart} marked={front} at={at} format={format} />
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
          {chart.curves.length > 1 ? nameAndValue(chart, label, at, value(label)) : value(label)}
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

function summaryOf(chart: Chart, front: string[], at: number | undefined, format: (value: number) => string): string {
  const values = front.flatMap((label) => {
    const curve = chart.curves.find((one) => one.label === label);
    const value = curve && valueAt(chart, curve, at);
    if (value === undefined) return [];
    return [chart.curves.length > 1 ? nameAndValue(chart, label, at, format(value)) : format(value)];
  });
  const when = at === undefined ? text.now : clock(at);
  return values.length ? text.summary(when, values.join(", ")) : text.noValue(when);
}

function shown(value: number, unit: Chart["unit"]): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "bytesPerSecond") return text.perSecond(bytes(value));
  if (unit === "watts") return `${number(value)} W`;
  if (unit === "percent") return `${number(value)} %`;
  if (unit === "cores") return text.cores(value < 0.1 ? axisNumber(value) : number(value));
  return Math.abs(value) >= 0.01 || value === 0 ? number(value) : value.toExponential(1);
}

/** Chooses the moment with the keyboard. */
function Slider({ charts, at, onChoose }: { charts: Chart[]; at: number | undefined; onChoose: (at: number) => void }) {
  const range = span(charts);
  if (!range) return null;
  const [first, last] = range.map((time) => Math.round(time / 1000)) as [number, number];
  const value = Math.min(last, Math.max(first, Math.round((at ?? range[1]) / 1000)));
  return (
    <label className="job-chart-slider">
      <span>{text.moment}</span>
      <input
        type="range"
        min={first}
        max={last}
        value={value}
        aria-valuetext={clock(value * 1000)}
        onChange={(event) => onChoose(Number(event.target.value) * 1000)}
      />
    </label>
  );
}

function Patterns({ patterns, onChange }: { patterns: string[]; onChange: (patterns: string[]) => void }) {
  const [typed, setTyped] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    const pattern = typed.trim();
    if (pattern) onChange([...new Set([...patterns, pattern])]);
    setTyped("");
  };
  return (
    <Form onSubmit={add} className="job-patterns">
      <FormGroup label={text.patterns} fieldId="metrics-pattern">
        <ul>
          {patterns.map((pattern) => (
            <li key={pattern}>
              <code>{pattern}</code>{" "}
              <Button
                variant="link"
                isInline
                aria-label={text.removePattern(pattern)}
                onClick={() => onChange(patterns.filter((one) => one !== pattern))}
              >
                {text.remove}
              </Button>
            </li>
          ))}
        </ul>
        <div className="job-pattern">
          <TextInput
            id="metrics-pattern"
            value={typed}
            placeholder="step_time=(?<step_time>[0-9.]+)"
            aria-describedby="metrics-pattern-hint"
            onChange={(_event, to) => setTyped(to)}
          />
          <Button type="submit" variant="secondary">
            {text.addPattern}
          </Button>
        </div>
        <FormHelperText>
          <HelperText id="metrics-pattern-hint">
            <HelperTextItem>{text.patternHint}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
    </Form>
  );
}
