// What can be done with one job or many. The service says what became of each.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { keys } from "../api/cache";
import { ask, client, type JobRow, kindOf } from "../api/client";
import { type Problem, ProblemError } from "../api/problem";

export type Action = "suspend" | "resume" | "cancel" | "retry" | "delete";
export type Outcome = { job: string; problem?: Pick<Problem, "message" | "hint"> };

// Requests that run at the same time; the service allows a person many more.
const mostAtOnce = 8;

export function useJobAction() {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ action, rows }: { action: Action; rows: JobRow[] }) =>
      action === "retry" || action === "cancel" ? one(action, rows) : batch(action, rows),
    onSettled: () => queries.invalidateQueries({ queryKey: keys.allJobs }),
  });
}

/** One request for each namespace and kind: names are unique within these. */
async function batch(action: Exclude<Action, "cancel" | "retry">, rows: JobRow[]): Promise<Outcome[]> {
  const groups = Map.groupBy(rows, (row) => `${row.namespace}/${kindOf(row.kind)}`);
  const answers = await inTurn([...groups.values()], async (group) => {
    const [first] = group;
    const { results } = await ask(
      client.POST("/api/v1/namespaces/{namespace}/batch", {
        params: { path: { namespace: first?.namespace ?? "" } },
        body: { action, kind: [kindOf(first?.kind)], names: group.map((row) => row.name ?? "") },
      }),
    );
    return results.map(({ job, outcome, problem }) => ({
      job: job?.name ?? "",
      problem: outcome === "failed" ? (problem ?? {}) : undefined,
    }));
  });
  return answers.flat();
}

/** One request for each job: the service has no batch of these. */
async function one(action: "cancel" | "retry", rows: JobRow[]): Promise<Outcome[]> {
  return inTurn(rows, async (row) => {
    const path = { namespace: row.namespace ?? "", kind: kindOf(row.kind), name: row.name ?? "" };
    try {
      await ask(
        client.POST(`/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/${action}`, { params: { path }, body: {} }),
      );
      return { job: path.name };
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      return { job: path.name, problem: error.problem };
    }
  });
}

async function inTurn<T, R>(items: T[], each: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += mostAtOnce) {
    results.push(...(await Promise.all(items.slice(at, at + mostAtOnce).map(each))));
  }
  return results;
}

/** Whether the state of a job permits an action, as the service says. */
export function permits(row: JobRow, action: Action): boolean {
  return row.actions.includes(action);
}

export function comparable(rows: JobRow[]): boolean {
  const [first] = rows;
  return (
    rows.length >= 2 &&
    rows.length <= 10 &&
    rows.every((row) => row.namespace === first?.namespace && row.kind === first?.kind)
  );
}

/** The address of a comparison. */
export function compareAddress(rows: JobRow[]): string {
  const query = new URLSearchParams({ namespace: rows[0]?.namespace ?? "", kind: kindOf(rows[0]?.kind) });
  for (const row of rows) query.append("name", row.name ?? "");
  return `/compare?${query}`;
}

/** The address of a job's page. */
export function jobAddress(row: { namespace?: string; kind?: string; name?: string }): string {
  return `/jobs/${encodeURIComponent(row.namespace ?? "")}/${kindOf(row.kind)}/${encodeURIComponent(row.name ?? "")}`;
}

/** The wizard, filled in from a job. */
export function cloneAddress(row: { namespace?: string; kind?: string; name?: string }): string {
  const from = `${row.namespace}/${kindOf(row.kind)}/${row.name}`;
  return `/create/job?${new URLSearchParams({ namespace: row.namespace ?? "", from })}`;
}

/** The key of a row, also among jobs of other kinds and after a job was deleted and created again. */
export function rowKey(row: JobRow): string {
  return `${row.namespace}/${kindOf(row.kind)}/${row.name}/${row.uid}`;
}
