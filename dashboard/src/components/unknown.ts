// Parts of an answer that are unknown, and why.

import type { Read } from "../api/choices";
import type { Schemas } from "../api/client";
import { ProblemError } from "../api/problem";
import { messages } from "../messages";

type Answer = { unknown: Schemas["UnknownPart"][] };

/** Why a part of an answer is unknown, in words; nothing if it is known or the answer has not come. */
export function whyUnknown<T extends Answer>(answer: Read<T>, part: Exclude<keyof T, "unknown">): string | undefined {
  const { data, error } = answer;
  // Also after an earlier answer: what it said may no longer hold.
  if (error) return (error instanceof ProblemError && error.message) || messages.common.noAnswer;
  if (!data || data[part] !== undefined) return undefined;
  return data.unknown.find((one) => one.part === part)?.message || messages.common.failed.unknown;
}
