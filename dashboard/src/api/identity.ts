// Who is signed in, and what they may do with jobs of a kind in a namespace.

import { useQuery } from "@tanstack/react-query";
import { keys } from "./cache";
import { ask, client, type Identity, type Kind } from "./client";

export function useIdentity(namespace = "", kind: Kind = "mpijob") {
  return useQuery({
    queryKey: keys.identity(namespace, kind),
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/me", { params: { query: namespace ? { namespace, kind } : {} }, signal })),
    staleTime: 60_000,
  });
}

/** Whether something is allowed: `allowed(identity, "create")`, `allowed(identity, "get", "pods/log")`. */
export function allowed(identity: Identity | undefined, verb: string, resource?: string): boolean | undefined {
  const found = identity?.permissions.find(
    (one) => one.verb === verb && (resource ? one.resource === resource : !one.resource?.includes("/")),
  );
  return found?.allowed;
}
