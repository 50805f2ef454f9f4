// Folders and files of a job's volumes. They are read through a pod, so that changes of the job do not renew them.

import { useQuery } from "@tanstack/react-query";
import { ask, client, type Schemas } from "../../api/client";
import { DisconnectedError, errorOf, ProblemError } from "../../api/problem";
import { pollInterval } from "../../api/stream";
import { addressOf, type Ref } from "../use-job";
import { type Content, contentOf, mostImage, mostText } from "./content";

export type Artifact = Schemas["Artifact"];

/** A place in a job: without a path, its volumes. */
export type Place = { path: string; worker: string };

const path = "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/artifacts";
const numberOf = (worker: string) => (worker === "" ? undefined : Number(worker));

export function useFolder(ref: Ref, place: Place, live: boolean, enabled: boolean) {
  return useQuery({
    queryKey: ["artifacts", ref, place],
    queryFn: ({ signal }) => {
      const query = { path: place.path || undefined, worker: numberOf(place.worker) };
      return ask(client.GET(path, { params: { path: ref, query }, signal }));
    },
    enabled,
    staleTime: 30_000,
    // Its pods may run soon.
    refetchInterval: ({ state }) => (live && noPodRuns(state.error) ? pollInterval : false),
  });
}

export function noPodRuns(error: unknown): error is ProblemError {
  return error instanceof ProblemError && error.problem.reason === "NoPodRuns";
}

/** Whether the files are in claims that a pod has to be started for. */
export function needsReader(error: unknown): error is ProblemError {
  return error instanceof ProblemError && error.problem.reason === "NeedsReader";
}

/** Whether something leads out of the volumes, or is in none that is shown. */
export function isOutside(error: unknown): error is ProblemError {
  return error instanceof ProblemError && error.problem.reason === "NotInVolume";
}

/** The address at which a browser saves a file. */
export function contentAddress(ref: Ref, { path, worker }: Place, limit?: number): string {
  const query = new URLSearchParams({ path });
  if (worker) query.set("worker", worker);
  if (limit) query.set("limit", String(limit));
  return addressOf(ref, "artifacts/content", query);
}

async function read(address: string, signal?: AbortSignal): Promise<Uint8Array<ArrayBuffer>> {
  const response = await fetch(address, { signal, cache: "no-store" }).catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new DisconnectedError(cause);
  });
  if (!response.ok) throw errorOf(response.status, await response.json().catch(() => undefined));
  return new Uint8Array(await response.arrayBuffer());
}

/** Saves a file. What refuses it is said here: a browser would only say that it could not be saved. */
export async function saveFile(ref: Ref, place: Place): Promise<void> {
  await read(contentAddress(ref, place, 1));
  const link = document.createElement("a");
  link.href = contentAddress(ref, place);
  link.download = "";
  link.click();
}

export type Preview = Exclude<Content, { kind: "image" }> | { kind: "image"; bitmap: ImageBitmap } | { kind: "large" };

/** What can be shown of a file. */
export function usePreview(ref: Ref, place: Place) {
  return useQuery({
    queryKey: ["artifacts", ref, place, "preview"],
    queryFn: async ({ signal }): Promise<Preview> => {
      const content = contentOf(await read(contentAddress(ref, place, mostText), signal));
      if (content.kind !== "image") return content;
      const bytes = await read(contentAddress(ref, place, mostImage + 1), signal);
      if (bytes.length > mostImage) return { kind: "large" };
      // Its pixels only: nothing of it is loaded as a document.
      const bitmap = await createImageBitmap(new Blob([bytes], { type: content.type })).catch(() => undefined);
      return bitmap ? { kind: "image", bitmap } : { kind: "binary" };
    },
    // Bitmaps are large.
    gcTime: 0,
  });
}
