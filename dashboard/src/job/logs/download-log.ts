// Saves the whole log that a query asks for as text: everything, not only what the page holds.

import { errorOf } from "../../api/problem";
import { save } from "../download";
import { addressOf, type Ref } from "../use-job";
import type { LogItem } from "./buffer";
import { sourceOf } from "./line-row";
import { type LogQuery, requestOf } from "./query";
import { itemsOf } from "./reader";

export async function downloadLog(
  jobRef: Ref,
  query: LogQuery,
  signal: AbortSignal,
  onProgress: (lines: number) => void,
): Promise<void> {
  const request = requestOf({ ...query, whole: true }, false);
  const response = await fetch(addressOf(jobRef, "logs", request), { signal, cache: "no-store" });
  if (!response.ok || !response.body) throw errorOf(response.status, await response.json().catch(() => undefined));
  const parts: BlobPart[] = [];
  let lines = 0;
  for await (const items of itemsOf(response.body)) {
    const found: LogItem[] = [];
    for (const item of items) {
      if ("problem" in item) throw errorOf(0, item.problem);
      if (item.type === "line") found.push(item);
    }
    if (!found.length) continue;
    // A Blob for each part, so that the browser may move it out of memory.
    parts.push(new Blob(found.map(textOf)));
    lines += found.length;
    onProgress(lines);
  }
  save(`${jobRef.name}.log`, parts);
}

/** `time source: text`, as it was written: what reads the file decides what terminal codes do. */
export function textOf({ at, pod, rank, text, also }: LogItem): string {
  const others = also.length ? ` (+${also.length})` : "";
  return `${at ?? ""} ${sourceOf({ pod, rank })}${others}: ${text ?? ""}\n`;
}
