// Jobs of a namespace compared, as the service compares them.

import { useQuery } from "@tanstack/react-query";
import { keys } from "../api/cache";
import { ask, client, type Kind, type Schemas } from "../api/client";

export type Comparison = Schemas["CompareJobsResponse"];
export type Compared = Schemas["Compared"];

export const fewest = 2;
export const most = 10;

export function useComparison({ namespace, kind, names }: { namespace: string; kind: Kind; names: string[] }) {
  return useQuery({
    queryKey: [...keys.allJobs, "compare", namespace, kind, names],
    queryFn: ({ signal }) =>
      ask(
        client.POST("/api/v1/namespaces/{namespace}/compare", {
          params: { path: { namespace } },
          body: { kind, names },
          signal,
        }),
      ),
    enabled: names.length >= fewest && names.length <= most,
  });
}
