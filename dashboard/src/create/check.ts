// The service's dry run of the job: what to correct, what to improve, and what the job would wait for.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { ask, client, type Schemas } from "../api/client";
import { DisconnectedError, type FieldFault, hasCode, ProblemError } from "../api/problem";
import { pollInterval } from "../api/stream";
import type { RenderBody } from "./model";

const typingPause = 400;

export type Check = {
  answer: Schemas["CreateJobResponse"] | undefined;
  /** The faults of fields. */
  faults: FieldFault[];
  /** Any other reason why the job would be refused, or could not be checked. */
  error: unknown;
  isChecking: boolean;
};

/** Checks what the job would be created from; nothing while that is not known. */
export function useCheck(namespace: string, source: RenderBody | undefined): Check {
  const text = JSON.stringify(source ?? null);
  const settled = useSettled(text);
  const query = useQuery({
    queryKey: ["check", namespace, settled],
    queryFn: ({ signal }) => dryRun(namespace, JSON.parse(settled), signal),
    enabled: source !== undefined && settled !== "null" && Boolean(namespace),
    placeholderData: keepPreviousData,
    staleTime: 15_000,
    gcTime: 60_000,
    retry: false,
    // A service that was away answers again without a key being pressed.
    refetchInterval: ({ state }) => (isAway(state.error) ? pollInterval : false),
  });
  const { error } = query;
  const isAnswered = query.isError || (query.isSuccess && !query.isPlaceholderData);
  // The faults of before stay until the next answer: they would come and go, and be announced, with each pause of typing.
  const before = useRef<FieldFault[]>([]);
  const faults = isAnswered || !source || !namespace ? faultsOf(error) : before.current;
  useEffect(() => {
    before.current = faults;
  });
  return {
    answer: error ? undefined : query.data,
    faults,
    // A quota that is exceeded is shown beside the quota, too.
    error: faults.length && !hasCode(error, "QuotaExceeded") ? undefined : error,
    isChecking: query.isFetching || settled !== text,
  };
}

/** The faults of fields that an error consists of. */
export function faultsOf(error: unknown): FieldFault[] {
  return error instanceof ProblemError ? error.problem.fields : [];
}

function isAway(error: unknown): boolean {
  return error instanceof DisconnectedError || hasCode(error, "Unavailable");
}

function dryRun(namespace: string, source: RenderBody, signal: AbortSignal) {
  return ask(
    client.POST("/api/v1/namespaces/{namespace}/jobs", {
      params: { path: { namespace } },
      body: { ...source, dryRun: true },
      signal,
    }),
  );
}

/** A value that has not changed for a moment. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), typingPause);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
