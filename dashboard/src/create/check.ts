// The service's dry run of the manifest: what to correct, what to improve, and what the job would wait for.

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ask, client, type Schemas } from "../api/client";
import { DisconnectedError, type FieldFault, hasCode } from "../api/problem";
import { pollInterval } from "../api/stream";

const typingPause = 400;

export type Check = {
  answer: Schemas["CreateJobResponse"] | undefined;
  /** The faults of fields. */
  faults: FieldFault[];
  /** Any other reason why the job would be refused, or could not be checked. */
  error: unknown;
  isChecking: boolean;
};

export function useCheck(namespace: string, manifest: string, enabled: boolean): Check {
  const settled = useSettled(manifest);
  const query = useQuery({
    queryKey: ["check", namespace, settled],
    queryFn: ({ signal }) => dryRun(namespace, settled, signal),
    enabled: enabled && Boolean(namespace),
    placeholderData: keepPreviousData,
    staleTime: 15_000,
    gcTime: 60_000,
    retry: false,
    // A service that was away answers again without a key being pressed.
    refetchInterval: ({ state }) => (isAway(state.error) ? pollInterval : false),
  });
  const { error } = query;
  const faults = hasCode(error, "Invalid") ? error.problem.fields : [];
  return {
    answer: error ? undefined : query.data,
    faults,
    error: faults.length ? undefined : error,
    isChecking: query.isFetching || settled !== manifest,
  };
}

function isAway(error: unknown): boolean {
  return error instanceof DisconnectedError || hasCode(error, "Unavailable");
}

function dryRun(namespace: string, manifest: string, signal: AbortSignal) {
  return ask(
    client.POST("/api/v1/namespaces/{namespace}/jobs", {
      params: { path: { namespace } },
      body: { manifest, dryRun: true },
      signal,
    }),
  );
}

/** A value that has not changed for a moment. */
function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), typingPause);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}
