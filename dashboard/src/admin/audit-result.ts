// What the lines of one audited operation say about it: what it was about, and how it ended.

import type { Schemas } from "../api/client";

type Line = Schemas["AuditLine"];

export type Result =
  | { kind: "answered"; status: number; reason: string }
  /** Seen by the admission webhook only, which reports what it lets pass without a status. */
  | { kind: "accepted" }
  | { kind: "unknown" };

/**
 * The result of an operation. The webhook's line comes before the service's own, and has no status where the object was
 * accepted, so the service's line decides wherever there is one.
 */
export function resultOf(lines: readonly Line[]): Result {
  const ends = lines.filter(({ stage }) => stage === "ResponseComplete");
  const line = ends.find(({ channel }) => channel === "service") ?? ends.find(({ status }) => status !== undefined);
  if (line?.status !== undefined) return { kind: "answered", status: line.status, reason: line.reason ?? "" };
  // A request that the service began has a result only if the service recorded one.
  const isOfService = lines.some(({ channel }) => channel === "service");
  return ends.length && !isOfService ? { kind: "accepted" } : { kind: "unknown" };
}

/** The names of all objects that an operation was about, in order: a batch has a line for each. */
export function objectsOf(lines: readonly Line[]): string[] {
  return [...new Set(lines.map(({ object }) => object ?? ""))].filter(Boolean);
}
