// The job that is being written. It survives a reload, a lost session and a wrong click: this tab keeps it until the job is created
// or the person starts over.

import { type Kind, kinds } from "../api/client";
import type { Fields } from "./fields";
import { beginWithKind, beginWithText, type Model, type TypedCommand } from "./model";

const storageKey = "training.draft";

/** `origin` is where the draft began: a kind, a file, another job. Another origin begins another draft. */
type Draft = {
  origin: string;
  text: string;
  fields?: Fields;
  edited: boolean;
  isUnread: boolean;
  /** Whether the text lacks changes of the fields. */
  isBehind: boolean;
  typed?: TypedCommand;
  /** Whether the person has typed nothing yet. */
  isNew?: boolean;
};

export function originOf(type: string | null): Kind | "custom" {
  if (type === "custom") return "custom";
  return kinds.find((one) => one === type) ?? "mpijob";
}

/** What an origin begins with; a copy of a job has its manifest from the service. */
export function beginOf(origin: string, manifest: string | undefined): Model {
  if (manifest !== undefined) return beginWithText(manifest);
  const kind = kinds.find((one) => one === origin);
  return kind ? beginWithKind(kind) : beginWithText("# Paste or write a manifest.\n");
}

/** Makes a manifest the draft of its origin, for the page that opens next. */
export function keepManifest(origin: string, text: string): void {
  keep({ origin, text, edited: true, isUnread: true, isBehind: false, isNew: true });
}

export function keepModel(origin: string, { text, fields, edited, isUnread, updates, typed }: Model): void {
  keep({ origin, text, fields, edited, isUnread, isBehind: updates.length > 0, typed });
}

export function dropDraft(): void {
  keep(undefined);
}

export function recallDraft(origin: string): { model: Model; isNew: boolean } | undefined {
  const draft = read();
  if (draft?.origin !== origin || typeof draft.text !== "string") return undefined;
  const { text, fields, edited = true, isBehind, isNew = false, typed } = draft;
  const isUnread = draft.isUnread === true || !fields;
  const updates = isBehind && fields ? [() => fields] : [];
  return { model: { text, fields, edited, isUnread, hasFields: true, updates, typed }, isNew };
}

function keep(draft: Draft | undefined): void {
  try {
    if (draft) sessionStorage.setItem(storageKey, JSON.stringify(draft));
    else sessionStorage.removeItem(storageKey);
  } catch {
    // The draft lives until the page is closed.
  }
}

function read(): Partial<Draft> | null {
  try {
    return JSON.parse(sessionStorage.getItem(storageKey) ?? "null") as Partial<Draft> | null;
  } catch {
    return null;
  }
}
