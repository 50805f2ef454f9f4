// What became of a job, in the order of time: the times of its row, and the events about the job itself.

import type { Job, JobRow } from "../api/client";
import type { JobEvent } from "./use-job";

export type Moment = {
  at: string;
  what: "created" | "started" | "finished" | "event";
  look: "neutral" | "good" | "bad" | "warning";
  /** The reason of an event; the job's state at its end. */
  word: string;
  message: string;
};

const endLooks: Partial<Record<NonNullable<JobRow["health"]>, Moment["look"]>> = {
  succeeded: "good",
  degraded: "warning",
  failed: "bad",
};

export function timelineOf(job: Job, events: readonly JobEvent[]): Moment[] {
  const { created, started, finished, health, phase, state, deleting } = job.row ?? {};
  const moments: Moment[] = [];
  if (created) moments.push({ at: created, what: "created", look: "neutral", word: "", message: "" });
  if (started && started !== created)
    moments.push({ at: started, what: "started", look: "neutral", word: "", message: "" });
  moments.push(...ownEvents(job, events));
  if (finished)
    moments.push({
      at: finished,
      what: "finished",
      look: endLooks[health ?? "waiting"] ?? "neutral",
      // A deletion begins after the end.
      word: (deleting ? phase : state) ?? "",
      message: job.failure?.message ?? "",
    });
  return moments.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

// They say what the times of the row say.
const repeated = ["Created", "Succeeded", "Failed"];

/** Events about the job object; `Running` of `MPIJobRunning`. */
function ownEvents(job: Job, events: readonly JobEvent[]): Moment[] {
  const kind = job.row?.kind ?? "";
  const own = `${kind.toLowerCase()}/${job.row?.name}`;
  return events
    .filter((event) => event.object === own && event.at)
    .map((event) => ({ ...event, reason: event.reason?.replace(kind, "").replace(/\/$/, "") }))
    .filter(({ reason }) => !repeated.includes(reason ?? ""))
    .map((event) => ({
      at: event.at ?? "",
      what: "event",
      look: event.type === "Warning" ? "warning" : "neutral",
      word: event.reason ?? "",
      message: event.message ?? "",
    }));
}
