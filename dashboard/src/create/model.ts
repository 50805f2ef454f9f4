// What the page holds while a job is written: the manifest as text, the fields, and which of them is ahead. The service turns each
// into the other. These are the pure transitions; `use-model.ts` sends the requests.
//
// A person may change fields while the text is being read, and the text while fields are being written. Changes of fields are
// therefore functions: they are made at once, and again on what the service read.

import { type Kind, kinds, type Schemas } from "../api/client";
import { hasOpenQuote, joinCommand, splitCommand } from "./command";
import { type Fields, setAt, specOf, type Update, valueAt } from "./fields";
import { merge, type Written } from "./yaml-text";

export type Model = {
  /** The manifest, YAML. Empty until the service wrote the first one. */
  text: string;
  /** Unknown until the service has read a manifest that was there first. */
  fields: Fields | undefined;
  /** Whether the text is the person's: typed, from a file, or from another job. Then it is sent, and keeps its formatting. */
  edited: boolean;
  /** Whether the fields were not read from the text yet. */
  isUnread: boolean;
  /** Whether the service could read fields in the text. */
  hasFields: boolean;
  /** Changes of fields that the text does not have yet. */
  updates: readonly Update[];
  /** The command as it was typed, which the fields have as words. */
  typed?: TypedCommand;
};

/** A text, and the words that the job had when it was typed: others come from elsewhere, and replace it. */
export type TypedCommand = { text: string; words: readonly string[] };

/** What to ask the service for next: the job that a form begins with, the fields of the text, or the text of the fields. */
export type Step = "begin" | "read" | "write";
export type RenderBody = { kind?: Kind; spec?: Schemas["JobSpec"]; manifest?: string };

export function beginWithKind(kind: Kind): Model {
  return { text: "", fields: { kind }, edited: false, isUnread: true, hasFields: true, updates: [] };
}

export function beginWithText(text: string): Model {
  return { text, fields: undefined, edited: true, isUnread: true, hasFields: true, updates: [] };
}

export function changeFields(model: Model, update: Update): Model {
  return { ...model, fields: model.fields && update(model.fields), updates: [...model.updates, update] };
}

/** Changes the command to what a person typed. With an open quote, it has no words yet: the job keeps those that it had. */
export function typeCommand(model: Model, text: string): Model {
  const words = splitCommand(text);
  const next = hasOpenQuote(text) ? model : changeFields(model, setAt("command", words.length ? words : undefined));
  return { ...next, typed: { text, words: wordsOf(next.fields) } };
}

/** The command as it is shown: as it was typed, for as long as nothing else has changed it. */
export function commandText(fields: Fields, typed: TypedCommand | undefined): string {
  const words = wordsOf(fields);
  return typed && isSame(typed.words, words) ? typed.text : joinCommand(words);
}

function wordsOf(fields: Fields | undefined): string[] {
  return fields && Array.isArray(fields.command) ? fields.command.map(String) : [];
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((word, at) => word === other[at]);
}

export function changeText(model: Model, text: string): Model {
  return { ...model, text, edited: true, isUnread: true, hasFields: true };
}

/** Whether a form has neither its defaults nor anything that was typed. */
export function isToBegin({ edited, isUnread, updates }: Model): boolean {
  return !edited && isUnread && !updates.length;
}

/** What has to be asked for, if the service can read the text at all. */
export function stepOf(model: Model, written: Written): Step | undefined {
  if (!model.edited) {
    if (model.isUnread) return "begin";
    return model.updates.length ? "write" : undefined;
  }
  if (!kindWritten(written)) return undefined;
  if (model.isUnread) return "read";
  return model.updates.length && model.hasFields ? "write" : undefined;
}

export function kindWritten(written: Written): Kind | undefined {
  return "fault" in written ? undefined : kinds.find((kind) => kind === written.kind.toLowerCase());
}

export function bodyOf({ text, fields, edited }: Model, step: Step): RenderBody {
  if (step === "read") return { manifest: text };
  const spec = specOf(fields ?? {});
  if (step === "begin") return { kind: spec.kind };
  return edited ? { manifest: text, spec } : { spec };
}

/** The model after an answer to what was asked for it. */
export function answered(model: Model, step: Step, { manifest = "", spec }: Schemas["RenderJobResponse"]): Model {
  if (step === "write") return { ...model, text: model.edited ? merge(model.text, manifest) : manifest, updates: [] };
  const fields = spec && model.updates.reduce((fields: Fields, update) => update(fields), spec);
  return {
    ...model,
    text: step === "begin" ? manifest : model.text,
    fields: fields ?? model.fields,
    isUnread: false,
    hasFields: spec !== undefined,
    updates: spec ? model.updates : [],
  };
}

/** What the job is created from: the fields, or the person's manifest. Without some fields, so that the others can be checked. */
export function sourceOf({ text, fields = {}, edited }: Model, without: readonly string[] = []): RenderBody {
  if (edited) return { manifest: text };
  return { spec: specOf(without.reduce((fields: Fields, path) => setAt(path, undefined)(fields), fields)) };
}

/** Of some fields, those that hold a text in place of a number, which the service cannot read. */
export function unreadable({ fields, edited }: Model, paths: readonly string[]): string[] {
  return paths.filter((path) => !edited && fields && typeof valueAt(fields, path) === "string");
}
