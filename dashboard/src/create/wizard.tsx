// What a creation begins with: a kind, a file, or another job, whose manifest the service copies first.

import { useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router-dom";
import { ask, client, kindOf } from "../api/client";
import { ErrorState, LoadingLines } from "../components/states";
import { messages } from "../messages";
import { originOf } from "./draft";
import { Editor } from "./editor";
import { CreateHeader } from "./header";

const text = messages.create;

export function Wizard() {
  const [query] = useSearchParams();
  const from = query.get("from");
  const set = query.getAll("set");
  const file = query.get("file");
  const origin = file ?? (from ? `from:${from}:${set.join()}` : originOf(query.get("type")));
  const title = from ? text.fromJob(from.split("/")[2] ?? "") : undefined;
  const copy = useCopyOf(from, set);
  if (copy.error) {
    return (
      <>
        <CreateHeader title={title} />
        <ErrorState error={copy.error} onRetry={() => void copy.refetch()} />
      </>
    );
  }
  if (from && copy.data === undefined) {
    return (
      <>
        <CreateHeader title={title} />
        <LoadingLines />
      </>
    );
  }
  return <Editor key={origin} origin={origin} beginning={copy.data} title={title} />;
}

/** The manifest of another job under a new name, with changes, as the service would create it. */
function useCopyOf(from: string | null, set: string[]) {
  const [namespace = "", kind = "", name = ""] = (from ?? "").split("/");
  return useQuery({
    queryKey: ["copy", from, set],
    enabled: Boolean(from),
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const path = { namespace, kind: kindOf(kind), name };
      const answer = await ask(
        client.POST("/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/clone", {
          params: { path },
          body: { set, dryRun: true },
          signal,
        }),
      );
      return answer.manifest ?? "";
    },
  });
}
