// The chosen namespace: `?namespace=` in the address, else the one chosen last. Empty: all namespaces. What an address
// chooses is remembered as if the person had chosen it, because links to other pages do not repeat it.

import { useQuery } from "@tanstack/react-query";
import { useCallback, useEffect } from "react";
import { useParams, useSearchParams } from "react-router-dom";
import { keys } from "../api/cache";
import { ask, client } from "../api/client";
import { recall, recallJson, remember } from "../browser/storage";

const lastKey = "training.namespace";
const knownKey = "training.namespaces";
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
