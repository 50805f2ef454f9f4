// What the reader of a log chose to see: kept in the address, sent to the service, which filters and folds.

import { messages } from "../../messages";
import { escapePattern } from "./text";

export const levels = ["", "debug", "info", "warning", "error"] as const;
export type Level = (typeof levels)[number];

export type LogQuery = {
  /** `launcher`, `all`, or the numbers of Workers. */
  from: "launcher" | "all" | readonly number[];
  ranks: readonly number[];
  search: string;
  regex: boolean;
  matchCase: boolean;
  context: number;
  level: Level;
  fold: boolean;
  /** Whether to read from the first line, and not only the newest. */
  whole: boolean;
  /** Whether to read the containers' previous run. */
  previous: boolean;
};

export const plain: LogQuery = {
  from: "launcher",
  ranks: [],
  search: "",
  regex: false,
  matchCase: false,
  context: 0,
  level: "",
  fold: true,
  whole: false,
  previous: false,
};

const mostContext = 1000;
// Enough to scroll in; of many pods, less of each.
const newestOfOne = 20_000;
const newestOfEach = 1_000;

export function readQuery(address: URLSearchParams): LogQuery {
  const from = address.get("from");
  const workers = numbers(from ?? "");
  return {
    from: from === "all" ? "all" : workers.length ? workers : "launcher",
    ranks: numbers(address.get("ranks") ?? ""),
    search: address.get("search") ?? "",
    regex: address.get("regex") === "true",
    matchCase: address.get("case") === "true",
    context: Math.min(mostContext, numbers(address.get("context") ?? "")[0] ?? 0),
    level: levels.find((level) => level === address.get("level")) ?? "",
    fold: address.get("fold") !== "false",
    whole: address.get("whole") === "true",
    previous: address.get("previous") === "true",
  };
}

/** The address with a change; what is as usual is left out of it. */
export function writeQuery(address: URLSearchParams, change: Partial<LogQuery>): URLSearchParams {
  const query = { ...readQuery(address), ...change };
  const after = new URLSearchParams(address);
  const put = (name: string, value: string, usual: string) =>
    value === usual ? after.delete(name) : after.set(name, value);
  put("from", typeof query.from === "string" ? query.from : ranges(query.from), "launcher");
  put("ranks", ranges(query.ranks), "");
  put("search", query.search, "");
  put("regex", String(query.regex), "false");
  put("case", String(query.matchCase), "false");
  put("context", String(query.context), "0");
  put("level", query.level, "");
  put("fold", String(query.fold), "true");
  put("whole", String(query.whole), "false");
  put("previous", String(query.previous), "false");
  return after;
}

/** The parameters of `ReadLogs`. Without `follow`, for a job that has ended and for downloads. */
export function requestOf(query: LogQuery, follow: boolean): URLSearchParams {
  const request = new URLSearchParams();
  if (query.from === "all") request.set("all", "true");
  else if (query.from !== "launcher") for (const worker of query.from) request.append("worker", String(worker));
  for (const rank of query.ranks) request.append("rank", String(rank));
  if (query.search) {
    const pattern = query.regex ? query.search : escapePattern(query.search);
    request.set("grep", query.matchCase ? pattern : `(?i)${pattern}`);
    if (query.context) request.set("context", String(query.context));
  }
  if (query.level) request.set("level", query.level);
  if (query.fold) request.set("fold", "true");
  if (query.previous) request.set("previous", "true");
  request.set("split", "true");
  if (follow) request.set("follow", "true");
  // A search looks at every line; otherwise the newest lines of each pod will do.
  if (!query.whole && !query.search && !query.level && !query.ranks.length) {
    const single = query.from === "launcher" || query.from.length === 1;
    request.set("tail", String(single ? newestOfOne : newestOfEach));
  }
  return request;
}

/** `0-3,7` as numbers, in order, each once. What is neither a number nor a range is left out. */
export function numbers(text: string): number[] {
  const most = 10_000;
  const found = new Set<number>();
  for (const part of text.split(/[\s,]+/)) {
    const match = /^(\d{1,6})(?:[-–](\d{1,6}))?$/.exec(part);
    if (!match) continue;
    const first = Number(match[1]);
    const last = Number(match[2] ?? match[1]);
    for (let number = first; number <= last && found.size < most; number += 1) found.add(number);
  }
  return [...found].sort((a, b) => a - b);
}

/** Numbers as `0-3,7`. */
export function ranges(all: readonly number[]): string {
  const sorted = [...new Set(all)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (sorted[end + 1] === (sorted[end] ?? 0) + 1) end += 1;
    parts.push(end > start ? `${sorted[start]}-${sorted[end]}` : `${sorted[start]}`);
    start = end + 1;
  }
  return parts.join(",");
}

/** Lines without a tag have no rank: no search or level would find them. */
export function noMatchHint({ ranks }: Pick<LogQuery, "ranks">): string {
  return ranks.length ? messages.job.logs.noRankBody : messages.job.logs.noMatchBody;
}
