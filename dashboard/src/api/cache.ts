// How events of the stream change what pages have already loaded.

import type { QueryClient } from "@tanstack/react-query";
import { type JobRef, type JobRow, kindOf, type Schemas } from "./client";
import type { JobsEvent } from "./stream";

export type JobsPage = Schemas["ListJobsResponse"];

/** The keys of cached answers. Everything about one job begins with `job(…)`. */
export const keys = {
  allJobs: ["jobs"] as const,
  jobs: (filter: object) => ["jobs", filter] as const,
  job: (job: { namespace?: string; kind?: string; name?: string }) =>
    ["job", job.namespace ?? "", kindOf(job.kind), job.name ?? ""] as const,
  namespaces: ["namespaces"] as const,
  namespacesOfNew: (kind: string | undefined) => ["namespaces", "create", kind ?? ""] as const,
  identity: (namespace: string, kind: string) => ["identity", namespace, kind] as const,
};

export function sameJob(a: JobRef | JobRow, b: JobRef | JobRow): boolean {
  return a.name === b.name && a.namespace === b.namespace && kindOf(a.kind) === kindOf(b.kind);
}

/** A page with the rows in their new state. Which rows belong on the page, the service decides. */
export function patchPage(page: JobsPage, event: Pick<JobsEvent, "jobs" | "deleted">): JobsPage {
  const jobs = page.jobs
    .filter((row) => !event.deleted.some((gone) => sameJob(row, gone)))
    .map((row) => event.jobs.find((changed) => sameJob(row, changed)) ?? row);
  return { ...page, jobs };
}

/** Shows an event at once, and has everything that it concerns loaded again. */
export function applyEvent(queries: QueryClient, event: JobsEvent, refresh: () => void): void {
  queries.setQueriesData<JobsPage>({ queryKey: keys.allJobs }, (page) => page && patchPage(page, event));
  if (event.type === "change" || event.complete) refresh();
  if (event.type !== "change") return;
  for (const job of [...event.jobs, ...event.deleted]) void queries.invalidateQueries({ queryKey: keys.job(job) });
}

/** Calls a function at most once per interval: at once, then again at its end if it was asked for in between. */
export function throttle(call: () => void, milliseconds: number): { call: () => void; stop: () => void } {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let again = false;
  const end = () => {
    timer = undefined;
    if (!again) return;
    again = false;
    start();
  };
  const start = () => {
    timer = setTimeout(end, milliseconds);
    call();
  };
  return {
    call: () => {
      if (timer) again = true;
      else start();
    },
    stop: () => clearTimeout(timer),
  };
}
