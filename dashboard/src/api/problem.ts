// What can go wrong with a request, as values that pages can tell apart.

import type { components } from "./schema";

export type Problem = components["schemas"]["Problem"];
export type FieldFault = components["schemas"]["FieldFault"];

/** The service refused or could not do what was asked; it says why. */
export class ProblemError extends Error {
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.message || problem.detail || problem.title || "");
    this.name = "ProblemError";
    this.problem = problem;
  }

  get code(): Problem["code"] {
    return this.problem.code;
  }
}

/** The service did not answer at all. */
export class DisconnectedError extends Error {
  constructor(cause?: unknown) {
    super("", { cause });
    this.name = "DisconnectedError";
  }
}

/** The error of an answer. A proxy that reaches no service answers with 502 to 504 and without a problem document. */
export function errorOf(status: number, body: unknown): ProblemError | DisconnectedError {
  if (isProblem(body)) return new ProblemError(body);
  if (status >= 500) return new DisconnectedError();
  return new ProblemError({ status, title: String(status), fields: [] });
}

function isProblem(body: unknown): body is Problem {
  return typeof body === "object" && body !== null && "code" in body && "status" in body;
}

/** Whether the same request may succeed later. */
export function isTemporary(error: unknown): boolean {
  if (error instanceof DisconnectedError) return true;
  return error instanceof ProblemError && (error.code === "Unavailable" || error.code === "TooManyRequests");
}

export function hasCode(error: unknown, code: NonNullable<Problem["code"]>): error is ProblemError {
  return error instanceof ProblemError && error.code === code;
}
