// Creates the job that is written.

import { useMutation } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { ask, client, type JobRef } from "../api/client";
import { type RenderBody, sourceOf } from "./model";
import type { Store } from "./use-model";

type Creation = {
  send: () => void;
  isPending: boolean;
  /** Why the job was not created, for as long as nothing is changed. */
  error: Error | null;
};

/** One key for each job: a request that is repeated after a broken connection creates no second one. */
export function useCreate(
  store: Store,
  namespace: string,
  read: () => Promise<RenderBody>,
  onCreated: (job: JobRef) => void,
): Creation {
  const key = useRef({ source: "", value: "" });
  const [refused, setRefused] = useState("");
  const written = () => JSON.stringify([namespace, sourceOf(store.latest())]);
  const { mutate, isPending, error } = useMutation({
    mutationFn: async () => {
      const body = await read();
      const source = JSON.stringify([namespace, body]);
      if (key.current.source !== source) key.current = { source, value: crypto.randomUUID() };
      const { job } = await ask(
        client.POST("/api/v1/namespaces/{namespace}/jobs", {
          params: { path: { namespace } },
          body: { ...body, idempotencyKey: key.current.value },
        }),
      );
      return job ?? {};
    },
    onError: () => setRefused(written()),
    onSuccess: onCreated,
  });
  return { send: mutate, isPending, error: error && refused === written() ? error : null };
}
