// The manifest that is being written. It survives a reload, a lost session and a wrong click: this tab keeps it until the
// job is created or the person starts over.

import { useCallback, useState } from "react";
import { type Kind, kinds } from "../api/client";
import { blanks } from "./shapes";

const storageKey = "training.draft";

/** `origin` is where the draft began: a kind, a file, another job. Another origin begins another draft. A new one was not typed. */
type Draft = { origin: string; text: string; isNew?: boolean };

export function useDraft(origin: string): {
  text: string | undefined;
  restored: boolean;
  set: (text: string) => void;
  drop: () => void;
} {
  const [kept] = useState(() => read(origin));
  const [draft, setDraft] = useState<Draft>({ origin, text: kept?.text ?? blankOf(origin) ?? "" });
  const text = draft.origin === origin ? draft.text : undefined;
  const set = useCallback(
    (next: string) => {
      setDraft({ origin, text: next });
      keep({ origin, text: next });
    },
    [origin],
  );
  const drop = useCallback(() => {
    keep(undefined);
    setDraft({ origin, text: blankOf(origin) ?? "" });
  }, [origin]);
  return {
    text: text || blankOf(origin),
    restored: kept !== undefined && !kept.isNew && kept.text === text,
    set,
    drop,
  };
}

/** A kind's blank form; a copy of a job has none until it is loaded. */
function blankOf(origin: string): string | undefined {
  if (origin === "custom") return "# Paste or write a manifest.\n";
  const kind = kinds.find((one) => one === origin);
  return kind ? blanks[kind] : undefined;
}

export function originOf(type: string | null): Kind | "custom" {
  if (type === "custom") return "custom";
  return kinds.find((one) => one === type) ?? "mpijob";
}

/** Makes a text the draft of its origin, for the page that opens next. */
export function keep(draft: Draft | undefined): void {
  try {
    if (draft) sessionStorage.setItem(storageKey, JSON.stringify(draft));
    else sessionStorage.removeItem(storageKey);
  } catch {
    // The draft lives until the page is closed.
  }
}

function read(origin: string): Draft | undefined {
  try {
    const draft = JSON.parse(sessionStorage.getItem(storageKey) ?? "null") as Partial<Draft> | null;
    return draft?.origin === origin && typeof draft.text === "string"
      ? { ...draft, origin, text: draft.text }
      : undefined;
  } catch {
    return undefined;
  }
}
