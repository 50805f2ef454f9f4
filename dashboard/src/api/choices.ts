// What a form can offer in a namespace, and how many GPUs are free. A part that is not set is unknown, and `unknown` has the reason.

import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { ask, client, type Schemas } from "./client";
import { isTemporary } from "./problem";
import { pollInterval } from "./stream";

export type Choices = Schemas["ListChoicesResponse"];
export type Gpus = Schemas["ListGpusResponse"];
/** An answer, as far as it has come. */
export type Read<T> = { data: T | undefined; error: unknown };

/** Others' jobs start and end: GPUs are counted again this often, in milliseconds, and so is read what came late. */
const interval = 30_000;

/** Nothing is read where no namespace is given. */
export function useGpus(namespace: string): Read<Gpus> {
  const { data, error } = useQuery({
    queryKey: ["gpus", namespace],
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/namespaces/{namespace}/gpus", { params: { path: { namespace } }, signal })),
    enabled: Boolean(namespace),
    refetchInterval: ({ state }) => (isTemporary(state.error) ? pollInterval : interval),
  });
  return useMemo(() => ({ data, error }), [data, error]);
}

/** Nothing is read where no namespace is given. */
export function useChoices(namespace: string): Read<Choices> {
  const { data, error } = useQuery({
    queryKey: ["choices", namespace],
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/namespaces/{namespace}/choices", { params: { path: { namespace } }, signal })),
    enabled: Boolean(namespace),
    staleTime: 15_000,
    // What was not read in time is read again without a key being pressed.
    refetchInterval: ({ state: { data, error } }) => {
      if (isTemporary(error)) return pollInterval;
      return data?.unknown.some(({ reason }) => reason === "Late") ? interval : false;
    },
  });
  return useMemo(() => ({ data, error }), [data, error]);
}
