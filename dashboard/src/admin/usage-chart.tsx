// Usage over time: bars of the largest groups, one on the other. The figures are in a table, too.

import { Alert, ExpandableSection, Toolbar, ToolbarContent } from "@patternfly/react-core";
import { useQueries } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ask, client, type Schemas } from "../api/client";
import { DataTable } from "../components/data-table";
import { LoadingLines } from "../components/states";
import { locale } from "../format/locale";
import { axisNumber, number } from "../format/quantity";
import { messages } from "../messages";
import { type Bucket, bucketsOf, type Group, groupsOf, type Period, topOf } from "./usage-buckets";
import { Choice, unitOf } from "./usage-parts";

const text = messages.admin.usage;
type By = keyof typeof text.bys;

/** In pixels: the bars, and the times below them. */
const height = 200;
const labels = 20;
// Groups differ by colour and by pattern.
const colors = [
  "global--text--color--link--default",
  "global--icon--color--status--danger--default",
  "global--icon--color--status--success--default",
  "global--icon--color--status--custom--default",
  "global--icon--color--status--warning--default",
  "global--icon--color--subtle",
].map((token) => `var(--pf-t--${token})`);
const most = colors.length;
const ticks = [1, 0.75, 0.5, 0.25, 0];
/** What is over stays as it is; the last part goes on. */
const fresh = { over: 300_000, present: 30_000 };

type Props = { period: Period; by: By; namespace: string; resources: string[] };

export function UsageChart({ period, by, namespace, resources }: Props) {
  const [chosen, setChosen] = useState("");
  const resource = resources.includes(chosen) ? chosen : (resources.find((one) => one.includes("/")) ?? resources[0]);
  const hour = new Date().setMinutes(0, 0, 0);
  const buckets = useMemo(() => bucketsOf(period, new Date(Math.max(hour, 0))), [period, hour]);
  const answers = useQueries({
    queries: buckets.map((bucket) => queryOf(bucket, by, namespace)),
    combine: (results) => ({
      usage: results.map(({ data }) => data ?? []),
      isLoading: results.some(({ isLoading }) => isLoading),
      hasFailed: results.some(({ isError }) => isError),
    }),
  });
  const nameOf = (row: Schemas["Usage"]) => nameIn(row, by, namespace);
  const groups = groupsOf(answers.usage, resource ?? "", nameOf, most);
  const choices = Object.fromEntries(resources.map((one) => [one, one]));
  return (
    <>
      <Toolbar>
        <ToolbarContent>
          <Choice label={text.resource} choices={choices} value={resource ?? ""} onChange={setChosen} />
        </ToolbarContent>
      </Toolbar>
      {answers.hasFailed && <Alert isInline component="h2" variant="warning" title={text.chart.missing} />}
      {answers.isLoading ? (
        <LoadingLines />
      ) : (
        <Bars
          title={text.chart.of(resource ?? "", text.bys[by].toLowerCase())}
          unit={unitOf(resource ?? "")}
          buckets={buckets}
          period={period}
          groups={groups}
        />
      )}
    </>
  );
}

function queryOf({ from, until }: Bucket, by: By, namespace: string) {
  const query = {
    since: from,
    ...(until && { until }),
    ...(namespace && { namespace }),
    ...(by !== "namespace" && { by: [by] }),
  };
  return {
    queryKey: ["usage", "part", query],
    queryFn: async ({ signal }: { signal: AbortSignal }) => {
      const answer = await ask(client.GET("/api/v1/usage", { params: { query }, signal }));
      // Only `format=csv` is answered with a text.
      return (answer as Exclude<typeof answer, string>).usage;
    },
    staleTime: until ? fresh.over : fresh.present,
    refetchInterval: until ? (false as const) : fresh.present,
  };
}

/** What a group is called; jobs and users of several namespaces may share a name. */
function nameIn({ namespace = "", user, job }: Schemas["Usage"], by: By, chosen: string): string {
  const name = by === "user" ? user || text.chart.unknown : by === "job" ? (job ?? "") : namespace;
  return by === "job" && !chosen ? `${namespace}/${name}` : name;
}

type BarsProps = { title: string; unit: string; period: Period; buckets: Bucket[]; groups: Group[] };

function Bars({ title, unit, period, buckets, groups }: BarsProps) {
  const top = topOf(groups);
  const totals = groups.map((group) => `${shown(group)} ${number(group.total)}`).join(", ");
  return (
    <figure className="app-bars">
      <div role="img" aria-label={text.chart.label(title, unit, totals)} className="app-bars-plot">
        <div className="app-bars-ticks" aria-hidden>
          {ticks.map((tick) => (
            <span key={tick}>{axisNumber(tick * top)}</span>
          ))}
        </div>
        <svg height={height + labels} aria-hidden="true" focusable="false">
          <Patterns />
          {ticks.map((tick) => (
            <line key={tick} x2="100%" y1={yOf(tick)} y2={yOf(tick)} className="app-bars-line" />
          ))}
          {buckets.map(({ from }, index) => (
            <Stack key={from} index={index} count={buckets.length} groups={groups} top={top} />
          ))}
          {buckets.map(({ from }, index) =>
            index % Math.ceil(buckets.length / 6) ? null : (
              <text
                key={from}
                x={`${(index * 100) / buckets.length}%`}
                y={height + labels - 4}
                className="app-bars-time"
              >
                {timeOf(from, period)}
              </text>
            ),
          )}
        </svg>
      </div>
      <figcaption>
        <span className="app-cause">
          {title}, {unit}
        </span>
        <ul className="app-bars-legend">
          {groups.map((group, place) => (
            <li key={group.name}>
              <svg width="16" height="16" aria-hidden="true" focusable="false">
                <rect width="16" height="16" fill={`url(#bars-${place})`} className="app-bars-bar" />
              </svg>
              <bdi>{shown(group)}</bdi>
              <strong>{number(group.total)}</strong>
            </li>
          ))}
        </ul>
      </figcaption>
      <Figures title={title} period={period} buckets={buckets} groups={groups} />
    </figure>
  );
}

/** The bars of a part of the period, one on the other. */
function Stack({ index, count, groups, top }: { index: number; count: number; groups: Group[]; top: number }) {
  const width = 100 / count;
  let below = 0;
  return (
    <>
      {groups.map(({ name, hours }, place) => {
        const value = hours[index] ?? 0;
        below += value;
        if (!value) return null;
        return (
          <rect
            key={name}
            x={`${(index + 0.1) * width}%`}
            width={`${0.8 * width}%`}
            y={yOf(below / top)}
            height={Math.max(1, (value / top) * (height - 2))}
            fill={`url(#bars-${place})`}
            className="app-bars-bar"
          />
        );
      })}
    </>
  );
}

/** A line at the top or the bottom is half outside of its place: there is a pixel for it. */
function yOf(share: number): number {
  return 1 + (1 - share) * (height - 2);
}

/** Stripes of different directions and widths, so that groups differ without colour. */
function Patterns() {
  const turns = [0, 45, 135, 90, 0, 45];
  const widths = [8, 5, 3, 4, 2, 2];
  return (
    <defs>
      {colors.map((color, place) => (
        <pattern
          key={color}
          id={`bars-${place}`}
          width="8"
          height="8"
          patternUnits="userSpaceOnUse"
          patternTransform={`rotate(${turns[place]})`}
        >
          <rect width="8" height="8" className="app-bars-ground" />
          <rect width={widths[place]} height="8" fill={color} />
        </pattern>
      ))}
    </defs>
  );
}

function Figures({ title, period, buckets, groups }: Omit<BarsProps, "unit">) {
  const [open, setOpen] = useState(false);
  return (
    <ExpandableSection
      toggleText={open ? text.chart.hideFigures : text.chart.figures}
      isExpanded={open}
      onToggle={(_event, expanded) => setOpen(expanded)}
    >
      <DataTable
        label={title}
        rows={buckets.map((bucket, index) => ({ ...bucket, index }))}
        rowKey={({ from }) => from}
        columns={[
          { label: text.chart.time, cell: ({ from }) => timeOf(from, period) },
          ...groups.map((group) => ({
            label: shown(group),
            cell: ({ index }: { index: number }) => number(group.hours[index] ?? 0),
          })),
        ]}
      />
    </ExpandableSection>
  );
}

function shown({ name }: Group): string {
  return name || text.chart.others;
}

function timeOf(from: string, period: Period): string {
  const format: Intl.DateTimeFormatOptions =
    period === "1d" ? { hour: "2-digit", minute: "2-digit", hour12: false } : { month: "short", day: "numeric" };
  return new Intl.DateTimeFormat(locale, format).format(new Date(from));
}
