// Columns with values of the metrics of the jobs' training. They change more often than the rows: only these cells are drawn again.

import { createContext, useContext } from "react";
import type { Schemas } from "../api/client";
import { titleOf, valueText } from "../job/metric-words";
import { messages } from "../messages";
import { type MetricColumn, metricValues, partsOfColumn } from "./filter";

const text = messages.jobs.metric;

type Summary = Schemas["MetricSummary"];
/** What the service knows; `of` has the job's UID and the metric's name. `missing`: why something is not known. */
export type KnownMetrics = { of: ReadonlyMap<string, Summary>; missing: string };

/** Undefined until it is loaded. */
export const MetricsContext = createContext<KnownMetrics | undefined>(undefined);

const keyOf = (uid: string | undefined, name: string | undefined) => JSON.stringify([uid, name]);

/** While the service is updated, a replica of the former version may answer without them. */
export function knownMetrics({ metrics = [], notes = [] }: Schemas["ListJobsResponse"]): KnownMetrics {
  return {
    of: new Map(metrics.map((summary) => [keyOf(summary.uid, summary.name), summary])),
    missing: notes.join("; "),
  };
}

export function columnTitle(column: MetricColumn): string {
  const [value, name] = partsOfColumn(column);
  return text[value](titleOf(name));
}

/** What can be chosen: the values of every metric that a job of the page has, and what is chosen already. */
export function columnChoices(known: KnownMetrics | undefined, chosen: readonly MetricColumn[]): MetricColumn[] {
  const names = [...(known?.of.values() ?? [])].map(({ name = "" }) => name);
  const all = new Set([...names, ...chosen.map((column) => partsOfColumn(column)[1])]);
  return [...all].sort().flatMap((name) => metricValues.map((value): MetricColumn => `${value}:${name}`));
}

export function MetricCell({ uid, column }: { uid: string | undefined; column: MetricColumn }) {
  const known = useContext(MetricsContext);
  if (!known) return null;
  const [value, name] = partsOfColumn(column);
  const summary = known.of.get(keyOf(uid, name));
  const found = summary?.[value];
  const count = summary?.notFinite ?? 0;
  return (
    <>
      {found === undefined ? (
        <span title={known.missing ? text.missing(known.missing) : text.unknown}>{text.none}</span>
      ) : (
        valueText(found, "number")
      )}
      {count > 0 && <div className="app-cause">{text.notFinite(count)}</div>}
    </>
  );
}
