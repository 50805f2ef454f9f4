// What the service knows about one job. Everything is cached under the job's key, so that an event of the stream renews all of it.

import { keepPreviousData, type QueryClient, queryOptions, useQuery } from "@tanstack/react-query";
import { keys } from "../api/cache";
import { ask, client, type Job, type Kind, type Schemas } from "../api/client";
import { usePolling } from "../api/live";
import { hasCode } from "../api/problem";
import { serviceRoot } from "../api/root";
import { pollInterval } from "../api/stream";

export type JobEvent = Schemas["Event"];
export type Ref = { namespace: string; kind: Kind; name: string };

const path = "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}";

export function hasEnded(job: Job | undefined): boolean {
  return job?.row?.ended === true;
}

export function useJob(ref: Ref) {
  const polling = usePolling();
  return useQuery({
    queryKey: [...keys.job(ref), "job"],
    queryFn: ({ signal }) => ask(client.GET(path, { params: { path: ref }, signal })),
    // The stream reports changes of the job's row; a pod may change without one.
    refetchInterval: ({ state }) => {
      if (hasCode(state.error, "NotFound")) return false;
      return hasEnded(state.data) ? polling : pollInterval;
    },
  });
}

export function useJobEvents(ref: Ref, live: boolean) {
  return useQuery({
    queryKey: [...keys.job(ref), "events"],
    queryFn: async ({ signal }) => {
      const answer = await ask(client.GET(`${path}/events`, { params: { path: ref }, signal }));
      return answer.events;
    },
    refetchInterval: live ? pollInterval : false,
  });
}

// The service samples every 15 s.
const sampleInterval = 15_000;

/** What its program reports and its pods use; patterns find more numbers in its output. */
export function useMetrics(ref: Ref, live: boolean, pattern: string[] = []) {
  return useQuery({
    ...metricsOf(ref, pattern),
    // Charts stay while a pattern is tried.
    placeholderData: keepPreviousData,
    refetchInterval: live ? sampleInterval : false,
  });
}

export function metricsOf(ref: Ref, pattern: string[] = []) {
  return queryOptions({
    queryKey: [...keys.job(ref), "metrics", pattern],
    queryFn: ({ signal }) => ask(client.GET(`${path}/metrics`, { params: { path: ref, query: { pattern } }, signal })),
  });
}

/** What a pending job waits for, as the checks before a creation say it. */
export function useFindings(ref: Ref, job: Job) {
  const manifest = job.manifest ?? "";
  return useQuery({
    queryKey: [...keys.job(ref), "findings"],
    queryFn: async ({ signal }) => {
      const answer = await ask(
        client.POST("/api/v1/namespaces/{namespace}/availability", {
          params: { path: { namespace: ref.namespace } },
          body: { manifest },
          signal,
        }),
      );
      return answer.findings.filter((finding) => finding.weight === "Waits");
    },
    enabled: Boolean(manifest) && job.row?.health === "waiting",
    refetchInterval: 30_000,
  });
}

// Amounts of a minute change a cost little.
const costInterval = 60_000;

/** What the job has cost since it was created; no cost where no prices are set. */
export function useCost(ref: Ref, job: Job) {
  const { uid, created, owner } = job.row ?? {};
  return useQuery({
    queryKey: [...keys.job(ref), "cost", uid],
    queryFn: async ({ signal }) => {
      const query = { namespace: ref.namespace, since: created, by: ["job" as const], ...(owner && { user: owner }) };
      const answer = await ask(client.GET("/api/v1/usage", { params: { query }, signal }));
      // Only `format=csv` is answered with a text.
      const { usage, currency = "" } = answer as Exclude<typeof answer, string>;
      return { currency, cost: usage.find((one) => one.uid === uid)?.cost ?? "" };
    },
    enabled: Boolean(uid && created),
    refetchInterval: hasEnded(job) ? false : costInterval,
  });
}

/** The jobs that repeat the same one, or were copied from it, it included; the oldest first. */
export function useRelatives(ref: Ref) {
  return useQuery({
    queryKey: [...keys.allJobs, { relatives: ref }],
    queryFn: async ({ signal }) => {
      const { jobs } = await ask(client.GET(`${path}/related`, { params: { path: ref }, signal }));
      // In the form of a page, so that events of the stream change its rows.
      return { jobs: jobs.flatMap(({ job }) => (job ? [job] : [])) };
    },
  });
}

/** The address of a method of the job, for what is read as a stream. */
export function addressOf(ref: Ref, method: string, query: URLSearchParams): string {
  const parts = [ref.namespace, "jobs", ref.kind, ref.name].map((part, at) =>
    at === 1 ? part : encodeURIComponent(part),
  );
  return `${serviceRoot}/api/v1/namespaces/${parts.join("/")}/${method}?${query}`;
}

export function renew(queries: QueryClient, ref: Ref): void {
  void queries.invalidateQueries({ queryKey: keys.job(ref) });
  void queries.invalidateQueries({ queryKey: keys.allJobs });
}
