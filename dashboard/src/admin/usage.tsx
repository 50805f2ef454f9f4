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

type Line = Schemas["Usage"] & { resource: string; hours: string; amountCost?: string; share: number };

/** One line for each resource; the share is of the largest line of that resource. */
export function linesOf(usage: readonly Schemas["Usage"][]): Line[] {
  const lines = usage.flatMap((row) =>
    row.amounts.map(({ resource = "", hours = "0", cost }) => ({
      ...row,
      resource,
      hours,
      amountCost: cost,
      share: 0,
    })),
  );
  const most = new Map<string, number>();
  for (const { resource, hours } of lines) most.set(resource, Math.max(most.get(resource) ?? 0, Number(hours)));
  for (const line of lines) line.share = Number(line.hours) / (most.get(line.resource) || 1);
  return lines.sort((a, b) => a.resource.localeCompare(b.resource) || b.share - a.share);
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
        rowKey={({ namespace, user, uid, resource }) => `${namespace}/${user}/${uid}/${resource}`}
        columns={[
          { label: text.resource, cell: ({ resource }) => resource },
          { label: text.bys[by], cell: (line) => <bdi>{who(line)}</bdi> },
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
            // The number is in the column before; the bar only shows it once more.
            cell: ({ share }) => <meter className="app-meter" aria-hidden value={share} min={0} max={1} />,
          },
        ]}
      />
    </>
  );
}
