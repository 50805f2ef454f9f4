// What the list shows is what the address says: filters, order, page and columns.

import { type Kind, kinds } from "../api/client";
import type { operations } from "../api/schema";

type ListQuery = NonNullable<operations["listJobs"]["parameters"]["query"]>;
export type Sort = NonNullable<ListQuery["sort"]>;

export const columns = [
  "name",
  "state",
  "workers",
  "namespace",
  "queue",
  "owner",
  "gpus",
  "created",
  "duration",
] as const;
export type Column = (typeof columns)[number];
const defaultColumns: readonly Column[] = ["name", "state", "workers", "namespace", "owner", "gpus", "created"];

/** A value of a metric of the jobs' training, in the columns after these: `last:loss`. */
export const metricValues = ["last", "lowest", "highest"] as const;
export type MetricValue = (typeof metricValues)[number];
export type MetricColumn = `${MetricValue}:${string}`;
const mostMetrics = 8;

export const phases = ["Pending", "Queued", "Suspended", "Initializing", "Running", "Succeeded", "Failed"] as const;
export const pageSizes = [20, 50, 100] as const;
const defaultSize = 50;
const defaultSort: Sort = "-created";
const sorts: readonly Sort[] = [
  "-created",
  "created",
  "name",
  "-name",
  "namespace",
  "-namespace",
  "phase",
  "-phase",
  "workers",
  "-workers",
  "gpus",
  "-gpus",
  "duration",
  "-duration",
];

export type View = {
  kind: Kind[];
  phase: string[];
  owner: string;
  since: string;
  until: string;
  q: string;
  labels: string;
  sort: Sort;
  limit: number;
  /** The `continue` of each page from the second to this one. */
  pages: string[];
  columns: readonly Column[];
  metrics: readonly MetricColumn[];
};

/** Reads an address; what it does not know, it leaves out. */
export function viewOf(query: URLSearchParams): View {
  const limit = Number(query.get("limit"));
  const chosen = (query.get("columns") ?? "").split(",");
  const shown = columns.filter((column) => chosen.includes(column));
  return {
    kind: query.getAll("kind").filter((kind): kind is Kind => kinds.includes(kind as Kind)),
    phase: query.getAll("phase"),
    owner: query.get("owner") ?? "",
    since: query.get("since") ?? "",
    until: query.get("until") ?? "",
    q: query.get("q") ?? "",
    labels: query.get("labels") ?? "",
    sort: sorts.find((sort) => sort === query.get("sort")) ?? defaultSort,
    limit: pageSizes.find((size) => size === limit) ?? defaultSize,
    pages: query.getAll("continue"),
    columns: shown.length ? withName(shown) : defaultColumns,
    metrics: [...new Set(query.getAll("metric").filter(isMetricColumn))].slice(0, mostMetrics),
  };
}

function isMetricColumn(text: string): text is MetricColumn {
  return metricValues.some((value) => text.startsWith(`${value}:`) && text.length > value.length + 1);
}

/** Its value, and the metric's name. */
export function partsOfColumn(column: MetricColumn): [MetricValue, string] {
  const at = column.indexOf(":");
  return [column.slice(0, at) as MetricValue, column.slice(at + 1)];
}

function withName(shown: Column[]): Column[] {
  return shown.includes("name") ? shown : ["name", ...shown];
}

/** Writes a change into an address. A change of anything but the page leads to the first page. */
export function withView(query: URLSearchParams, change: Partial<View>): URLSearchParams {
  const view = { ...viewOf(query), pages: [], ...change };
  const after = new URLSearchParams(query);
  const set = (name: string, values: readonly string[]) => {
    after.delete(name);
    for (const value of values) if (value) after.append(name, value);
  };
  for (const name of ["kind", "phase"] as const) set(name, view[name]);
  for (const name of ["owner", "since", "until", "q", "labels"] as const) set(name, [view[name]]);
  set("sort", view.sort === defaultSort ? [] : [view.sort]);
  set("limit", view.limit === defaultSize ? [] : [String(view.limit)]);
  set("columns", view.columns.join() === defaultColumns.join() ? [] : [view.columns.join()]);
  set("metric", view.metrics);
  set("continue", view.pages);
  return after;
}

/** What the stream can filter by: everything but the times. */
export function streamFilter(namespace: string, view: View) {
  const { kind, phase, owner, q, labels } = view;
  return { namespace, kind, phase, owner, q, labels };
}

/** `metrics`: whether their values are asked for, because they are shown or can be chosen. */
export function listQuery(namespace: string, view: View, metrics = view.metrics.length > 0): ListQuery {
  const { since, until, sort, limit } = view;
  const wanted = {
    ...streamFilter(namespace, view),
    since,
    until,
    sort,
    limit,
    continue: view.pages.at(-1),
    total: true,
    metrics,
  };
  return Object.fromEntries(
    Object.entries(wanted).filter(([, value]) => value && !(Array.isArray(value) && !value.length)),
  );
}

export const noFilters = {
  kind: [],
  phase: [],
  owner: "",
  since: "",
  until: "",
  q: "",
  labels: "",
} satisfies Partial<View>;

export function isFiltered(view: View): boolean {
  const { kind, phase, owner, since, until, q, labels } = view;
  return kind.length > 0 || phase.length > 0 || Boolean(owner || since || until || q || labels);
}

/** The fields that the service sorts by. */
export const sortable: Partial<Record<Column, string>> = {
  name: "name",
  state: "phase",
  namespace: "namespace",
  workers: "workers",
  gpus: "gpus",
  created: "created",
  duration: "duration",
};

export function sortOf(column: Column, direction: "asc" | "desc"): Sort {
  // Age grows as the time of creation goes back.
  const descending = column === "created" ? direction === "asc" : direction === "desc";
  const field = sortable[column] ?? "created";
  return `${descending ? "-" : ""}${field}` as Sort;
}

export function sortedBy(sort: Sort): { column: Column; direction: "asc" | "desc" } {
  const field = sort.replace("-", "");
  const column = columns.find((one) => sortable[one] === field) ?? "created";
  const descending = sort.startsWith("-") !== (column === "created");
  return { column, direction: descending ? "desc" : "asc" };
}
