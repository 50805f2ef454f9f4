// The chosen namespace: `?namespace=` in the address, else the one chosen last. Empty: all namespaces. What an address
// chooses is remembered as if the person had chosen it, because links to other pages do not repeat it.

import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect } from "react";
import { useParams, useSearchParams } from "react-router-dom";
import { keys } from "../api/cache";
import { ask, client, type Kind } from "../api/client";
import { recall, recallJson, remember } from "../browser/storage";

const lastKey = "training.namespace";
const knownKey = "training.namespaces";
const lastOfNewKey = "training.namespace-of-new";
const mostKnown = 30;

export function useNamespace(): [string, (namespace: string) => void] {
  const [query, setQuery] = useSearchParams();
  const { namespace: inPath } = useParams();
  const inQuery = query.get("namespace");
  useEffect(() => rememberAddress(inQuery ?? undefined, inPath), [inQuery, inPath]);
  const choose = useCallback(
    (namespace: string) => {
      rememberChoice(namespace);
      setQuery((before) => {
        const after = new URLSearchParams(before);
        after.set("namespace", namespace);
        after.delete("continue");
        return after;
      });
    },
    [setQuery],
  );
  return [inPath ?? inQuery ?? recall(lastKey) ?? "", choose];
}

/** Namespaces to offer: those that the service lists, and those that the person used before. */
export function useKnownNamespaces(): string[] {
  const { data } = useQuery({
    queryKey: keys.namespaces,
    queryFn: ({ signal }) => ask(client.GET("/api/v1/namespaces", { signal })),
    staleTime: 30_000,
  });
  const listed = data?.namespaces.map(({ name = "" }) => name) ?? [];
  return [...new Set([...listed, ...rememberedNamespaces()])].filter(Boolean).sort();
}

export type NamespacesOfNew = {
  /** Where the person may create jobs of the kind, as far as the service could check that; unknown until it has. */
  names: readonly string[] | undefined;
  isPartial: boolean;
};

/** Where jobs of a kind can be created, and where: in the chosen namespace, else where the last one was, else in the only one. */
export function useNamespacesOfNew(kind?: Kind): [namespace: string, NamespacesOfNew] {
  const [chosen] = useNamespace();
  const { data } = useQuery({
    queryKey: keys.namespacesOfNew(kind),
    queryFn: ({ signal }) =>
      ask(
        client.GET("/api/v1/namespaces", {
          params: { query: { verb: "create", kind: kind ? [kind] : undefined } },
          signal,
        }),
      ),
    staleTime: 30_000,
  });
  const names = data?.namespaces.map(({ name = "" }) => name);
  const isPartial = data?.partial === true;
  const last = recall(lastOfNewKey) ?? "";
  const [first = "", ...others] = names ?? [];
  const isKnown = names?.includes(last) || (isPartial && isNamespace(last));
  const likely = isKnown ? last : others.length || isPartial ? "" : first;
  return [chosen || likely, { names, isPartial }];
}

/** A job was created here: so may be the next one. */
export function rememberNamespaceOfNew(namespace: string): void {
  remember(lastOfNewKey, namespace);
}

export function isNamespace(name: string): boolean {
  return /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name);
}

function rememberAddress(inQuery: string | undefined, inPath: string | undefined): void {
  // All namespaces include that of the job that the person opened from their list.
  const chosen = inQuery ?? (recall(lastKey) === "" ? undefined : inPath);
  if (chosen === "" || (chosen && isNamespace(chosen))) rememberChoice(chosen);
}

function rememberChoice(namespace: string): void {
  remember(lastKey, namespace);
  if (namespace) rememberNamespace(namespace);
}

function rememberedNamespaces(): string[] {
  const isList = (value: unknown): value is string[] =>
    Array.isArray(value) && value.every((one) => typeof one === "string");
  return recallJson(knownKey, isList, []);
}

function rememberNamespace(namespace: string): void {
  const others = rememberedNamespaces().filter((one) => one !== namespace);
  remember(knownKey, JSON.stringify([namespace, ...others].slice(0, mostKnown)));
}
