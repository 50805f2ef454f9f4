// Keeps fields and manifest in step through the service, in the order of what was typed: an answer to something that was changed
// since is dropped.

import { useCallback, useEffect, useRef, useState } from "react";
import { ask, client, type Schemas } from "../api/client";
import { isTemporary } from "../api/problem";
import { pollInterval } from "../api/stream";
import { beginOf, dropDraft, keepModel, recallDraft } from "./draft";
import type { Update } from "./fields";
import {
  answered,
  bodyOf,
  changeFields,
  changeText,
  type Model,
  type RenderBody,
  type Step,
  sourceOf,
  stepOf,
  typeCommand,
} from "./model";
import { readText, type Written } from "./yaml-text";

const typingPause = 150;
/** How often a creation waits for the manifest while the person goes on typing. */
const mostSteps = 20;

export type Store = {
  model: Model;
  /** The model at this moment, also between two renderings of the page. */
  latest: () => Model;
  change: (update: Update) => void;
  type: (text: string) => void;
  typeCommand: (text: string) => void;
  /** Takes an answer, unless the model has changed since it was asked for. */
  answer: (asked: Model, step: Step, answer: Schemas["RenderJobResponse"]) => void;
  drop: () => void;
  /** Whether the draft is from before, and nothing was changed since. */
  isRestored: boolean;
};

export function useStore(origin: string, manifest: string | undefined): Store {
  const [kept] = useState(() => recallDraft(origin));
  const [model, setModel] = useState(() => kept?.model ?? beginOf(origin, manifest));
  const [isTouched, setTouched] = useState(kept ? !kept.isNew : false);
  const [isRestored, setRestored] = useState(isTouched);
  const latest = useRef(model);
  const set = useCallback(
    (next: Model, isKept: boolean) => {
      latest.current = next;
      setModel(next);
      if (isKept) keepModel(origin, next);
    },
    [origin],
  );
  const touch = useCallback(
    (next: Model) => {
      setTouched(true);
      setRestored(false);
      set(next, true);
    },
    [set],
  );
  return {
    model,
    isRestored,
    latest: useCallback(() => latest.current, []),
    change: useCallback((update) => touch(changeFields(latest.current, update)), [touch]),
    type: useCallback((text) => touch(changeText(latest.current, text)), [touch]),
    typeCommand: useCallback((text) => touch(typeCommand(latest.current, text)), [touch]),
    answer: useCallback(
      (asked, step, answer) => {
        if (latest.current === asked) set(answered(asked, step, answer), isTouched);
      },
      [set, isTouched],
    ),
    drop: useCallback(() => {
      dropDraft();
      setTouched(false);
      setRestored(false);
      set(beginOf(origin, manifest), false);
    }, [origin, manifest, set]),
  };
}

export type Rendering = {
  written: Written;
  /** Whether fields and manifest say the same. */
  isCurrent: boolean;
  /** Why they do not. */
  error: unknown;
  /** Makes them say the same now, and returns the manifest. */
  settle: () => Promise<string>;
  /** What a job is created from, with everything that was typed. */
  source: () => Promise<RenderBody>;
};

/** `written`: what was read of the model's text. */
export function useRendering(store: Store, namespace: string, written: Written): Rendering {
  const { model, latest, answer } = store;
  const step = stepOf(model, written);
  const [error, setError] = useState<unknown>();
  const [attempt, setAttempt] = useState(0);
  useRenderAgain(store, namespace);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt asks again.
  useEffect(() => {
    if (!step) return;
    const abort = new AbortController();
    const later = (action: () => void, pause: number) => {
      const timer = setTimeout(action, pause);
      abort.signal.addEventListener("abort", () => clearTimeout(timer));
    };
    const request = async () => {
      try {
        answer(model, step, await render(namespace, bodyOf(model, step), abort.signal));
        setError(undefined);
      } catch (cause) {
        if (abort.signal.aborted) return;
        setError(cause);
        // A service that was away answers again without a key being pressed.
        if (isTemporary(cause)) later(() => setAttempt((before) => before + 1), pollInterval);
      }
    };
    later(() => void request(), step === "begin" || !model.fields ? 0 : typingPause);
    return () => abort.abort();
  }, [model, step, namespace, answer, attempt]);
  const settle = useCallback(async () => {
    for (let steps = 0; steps < mostSteps; steps++) {
      const now = latest();
      const next = stepOf(now, readText(now.text));
      if (!next) return now.text;
      answer(now, next, await render(namespace, bodyOf(now, next)));
    }
    throw new Error();
  }, [latest, answer, namespace]);
  const source = useCallback(async () => {
    const { edited, isUnread } = latest();
    // Fields need no manifest, but the defaults that they begin with.
    if (edited || isUnread) await settle();
    return sourceOf(latest());
  }, [latest, settle]);
  return { written, isCurrent: !step, error: step ? error : undefined, settle, source };
}

/** What a namespace asks of pods is in the manifest: another namespace, another manifest. */
function useRenderAgain({ latest, answer }: Store, namespace: string): void {
  const renderedFor = useRef(namespace);
  useEffect(() => {
    const model = latest();
    if (renderedFor.current === namespace || model.edited || model.isUnread) return;
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      const body = bodyOf(model, "write");
      const rendered = await render(namespace, body, abort.signal).catch(() => undefined);
      if (!rendered) return;
      renderedFor.current = namespace;
      answer(model, "write", rendered);
    }, typingPause);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [latest, answer, namespace]);
}

/** Rendering needs no permission, so a form without a namespace can use any. */
function render(namespace: string, body: RenderBody, signal?: AbortSignal): Promise<Schemas["RenderJobResponse"]> {
  return ask(
    client.POST("/api/v1/namespaces/{namespace}/render", {
      params: { path: { namespace: namespace || "default" } },
      body,
      signal,
    }),
  );
}
