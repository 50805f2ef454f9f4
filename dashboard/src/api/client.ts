// The typed client of the service. Every method either returns the data or throws a `ProblemError` or `DisconnectedError`.

import createClient from "openapi-fetch";
import { DisconnectedError, errorOf } from "./problem";
import { serviceRoot } from "./root";
import type { components, paths } from "./schema";
import { sessionFetch } from "./session";

export type Schemas = components["schemas"];
export type Job = Schemas["Job"];
export type JobRow = Schemas["JobRow"];
export type JobRef = Schemas["JobRef"];
export type JobSpec = Schemas["JobSpec"];
export type Pod = Schemas["Pod"];
export type Finding = Schemas["Finding"];
export type Failure = Schemas["Failure"];
export type JobStep = Schemas["JobStep"];
export type Fix = Schemas["Fix"];
export type Identity = Schemas["Identity"];

/** The kinds as paths and filters spell them. */
export type Kind = "mpijob" | "trainjob" | "pytorchjob" | "tfjob";
export const kinds: readonly Kind[] = ["mpijob", "trainjob", "pytorchjob", "tfjob"];

export function kindOf(kind: string | undefined): Kind {
  const lower = (kind ?? "").toLowerCase();
  return kinds.find((known) => known === lower) ?? "mpijob";
}

export const client = createClient<paths>({
  baseUrl: `${serviceRoot}/`,
  credentials: "same-origin",
  fetch: sessionFetch,
});

/** The data of an answer: `await ask(client.GET("/api/v1/jobs"))`. */
export async function ask<T>(answer: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  const { data, error, response } = await answer.catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new DisconnectedError(cause);
  });
  if (!response.ok) throw errorOf(response.status, error);
  return data as T;
}
