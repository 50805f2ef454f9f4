// Where the reference of the API describes a field of the form.

import { reference } from "../api/docs";

/** The messages of the contract that fields within another field belong to. */
const messagesOf: Readonly<Record<string, string>> = {
  worker: "JobPart",
  launcher: "JobPart",
  scheduling: "JobPlacement",
  failures: "JobFailures",
};
/** What the form has beside the fields of a specification. */
const others: Readonly<Record<string, string>> = {
  namespace: "CreateJobRequest.namespace",
  hardware: "HardwareProfileChoice.resources",
};

export function anchorOf(at: string): string {
  const names = at.split(".");
  return others[at] ?? `${messagesOf[names.at(-2) ?? ""] ?? "JobSpec"}.${names.at(-1)}`;
}

export function referenceOf(at: string): string {
  return `${reference}#${anchorOf(at)}`;
}
