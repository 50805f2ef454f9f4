// What jobs used in a period, for showback: a table with each row's share, a chart over time, and the same as CSV.

import { Button, ToggleGroup, ToggleGroupItem, Toolbar, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router-dom";
import { ask, client, type Schemas } from "../api/client";
import { serviceRoot } from "../api/root";
import { DataTable } from "../components/data-table";
import { ErrorState, LoadingLines, NothingHere } from "../components/states";
import { money } from "../format/money";
import { number } from "../format/quantity";
import { exact } from "../format/time";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";
import { Advice } from "./advice";
import type { Period } from "./usage-buckets";
import { UsageChart } from "./usage-chart";
import { Choice, unitOf } from "./usage-parts";

const text = messages.admin.usage;
const views = ["table", "chart"] as const;
type View = (typeof views)[number];
type By = keyof typeof text.bys;

export function UsageTab() {
  const [namespace] = useNamespace();
  const [view, setView] = useTableOrChart();
  const [since, setSince] = useState<Period>("30d");
  const [by, setBy] = useState<By>("namespace");
  const query = { since, ...(namespace && { namespace }), ...(by !== "namespace" && { by: [by] }) };
  const usage = useQuery({
    queryKey: ["usage", query],
    queryFn: async ({ signal }) => {
      const answer = await ask(client.GET("/api/v1/usage", { params: { query }, signal }));
      // Only `format=csv` is answered with a text.
      return answer as Exclude<typeof answer, string>;
    },
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
  });
  const { data, error } = usage;
  return (
    <>
      <Toolbar>
        <ToolbarContent>
          <Choice label={text.period} choices={text.periods} value={since} onChange={setSince} />
          <Choice label={text.by} choices={text.bys} value={by} onChange={setBy} />
          <ToolbarItem>
            <ToggleGroup aria-label={text.view}>
              {views.map((one) => (
                <ToggleGroupItem
                  key={one}
                  text={text.views[one]}
                  buttonId={`usage-${one}`}
                  isSelected={view === one}
                  onChange={() => setView(one)}
                />
              ))}
            </ToggleGroup>
          </ToolbarItem>
          <ToolbarItem>
            <Button component="a" variant="secondary" href={csvAddress(query)} download={`usage-${since}.csv`}>
              {text.csv}
            </Button>
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {error ? (
        <ErrorState error={error} onRetry={() => void usage.refetch()} />
      ) : data && view === "chart" && data.usage.length ? (
        <UsageChart
          period={since}
          by={by}
          namespace={namespace}
          resources={[...new Set(linesOf(data.usage).map(({ resource }) => resource))]}
        />
      ) : data ? (
        <UsageTable
          usage={data.usage}
          currency={data.currency}
          total={data.cost}
          basis={data.costBasis}
          by={by}
          range={data.from && data.until ? text.range(exact(data.from), exact(data.until)) : ""}
        />
      ) : (
        <LoadingLines />
      )}
      {/* What is refused or cannot be reached is said once. */}
      {!error && <Advice />}
    </>
  );
}

/** Table or chart, as the address says. */
function useTableOrChart(): [View, (view: View) => void] {
  const [address, setAddress] = useSearchParams();
  const view = views.find((one) => one === address.get("view")) ?? "table";
  const setView = (next: View) =>
    setAddress((before) => {
      const after = new URLSearchParams(before);
      if (next === "table") after.delete("view");
      else after.set("view", next);
      return after;
    });
  return [view, setView];
}

function csvAddress({ since, namespace, by }: { since: string; namespace?: string; by?: string[] }): string {
  const query = new URLSearchParams({ since, format: "csv" });
  if (namespace) query.set("namespace", namespace);
  for (const one of by ?? []) query.append("by", one);
  return `${serviceRoot}/api/v1/usage?${query}`;
}

type Line = Schemas["Usage"] & {
  resource: string;
  hours: string;
  amountCost?: string;
  /** The part of all hours of the resource, undefined if there are none. */
  share: number | undefined;
  isTotal?: boolean;
};

/** One line for each resource, GPUs first, the largest use first; several of one resource have a line with their sum. */
export function linesOf(usage: readonly Schemas["Usage"][]): Line[] {
  const lines = usage.flatMap((row) =>
    row.amounts.map(
      ({ resource = "", hours = "0", cost }): Line => ({ ...row, resource, hours, amountCost: cost, share: undefined }),
    ),
  );
  const resources = [...new Set(lines.map(({ resource }) => resource))].sort(
    (a, b) => rank(a) - rank(b) || a.localeCompare(b),
  );
  return resources.flatMap((resource) => {
    const own = lines.filter((line) => line.resource === resource);
    const all = own.reduce((sum, { hours }) => sum + Number(hours), 0);
    const shared = own
      .map((line) => ({ ...line, share: all ? Number(line.hours) / all : undefined }))
      .sort((a, b) => Number(b.hours) - Number(a.hours));
    return own.length > 1 ? [...shared, totalOf(resource, own, all)] : shared;
  });
}

/** Devices have a vendor's prefix; they are what is scarce. */
function rank(resource: string): number {
  return resource.includes("/") ? 0 : resource === "cpu" ? 1 : 2;
}

function totalOf(resource: string, lines: readonly Line[], hours: number): Line {
  const costs = lines.map(({ amountCost }) => amountCost);
  // What has no price makes the sum unknown.
  const cost = costs.every(Boolean) ? costs.reduce((sum, one) => sum + Number(one), 0) : undefined;
  return {
    amounts: [],
    resource,
    hours: number(hours),
    amountCost: cost === undefined ? undefined : String(cost),
    share: hours ? 1 : undefined,
    isTotal: true,
  };
}

type TableProps = {
  usage: Schemas["Usage"][];
  by: By;
  range: string;
  currency?: string;
  total?: string;
  basis?: string;
};

function UsageTable({ usage, by, range, currency, total, basis }: TableProps) {
  const lines = linesOf(usage);
  if (!lines.length) return <NothingHere title={text.none}>{range}</NothingHere>;
  const who = ({ namespace, user, job }: Line) => (by === "user" ? user : by === "job" ? job : namespace);
  return (
    <>
      <p className="app-cause">{range}</p>
      {currency && total && (
        <p>
          <strong>{text.total}</strong> {money(total, currency)}
        </p>
      )}
      {basis && (
        <p className="app-cause">
          <bdi>{basis}</bdi>
        </p>
      )}
      <DataTable
        label={messages.admin.tabs.usage}
        rows={lines}
        rowKey={({ namespace, user, uid, resource, isTotal }) => `${isTotal} ${namespace}/${user}/${uid}/${resource}`}
        columns={[
          { label: text.resource, cell: ({ resource }) => resource },
          {
            label: text.bys[by],
            cell: (line) => (line.isTotal ? <strong>{text.totalOf}</strong> : <bdi>{who(line)}</bdi>),
          },
          ...(by === "namespace" ? [] : [{ label: text.bys.namespace, cell: ({ namespace }: Line) => namespace }]),
          { label: text.hours, cell: ({ hours, resource }) => `${hours} ${unitOf(resource)}` },
          ...(currency
            ? [
                {
                  label: text.cost,
                  cell: ({ amountCost }: Line) => (amountCost ? money(amountCost, currency) : text.noPrice),
                },
              ]
            : []),
          {
            label: text.share,
            cell: ({ share }) =>
              share !== undefined && (
                <span className="app-share">
                  <meter className="app-meter" aria-hidden value={share} min={0} max={1} />
                  {text.percent(number(Math.round(share * 1000) / 10))}
                </span>
              ),
          },
        ]}
      />
    </>
  );
}
