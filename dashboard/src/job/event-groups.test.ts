import { describe, expect, test } from "vitest";
import type { JobRow } from "../api/client";
import { placeOf } from "./cursor";
import { groupEvents, matches } from "./event-groups";
import { timelineOf } from "./timeline-items";
import type { JobEvent } from "./use-job";

const event = (reason: string, object: string, at: string, change: Partial<JobEvent> = {}): JobEvent => ({
  type: "Normal",
  reason,
  object,
  at: `2026-01-01T00:00:${at}Z`,
  message: "",
  count: 1,
  ...change,
});

describe("events", () => {
  test("about several pods alike are one, with its count and objects", () => {
    const scheduled = (worker: number, at: string) =>
      event("Scheduled", `pod/a-worker-${worker}`, at, {
        message: `Successfully assigned default/a-worker-${worker} to node-${worker}`,
      });
    const [group, ...others] = groupEvents([scheduled(0, "01"), scheduled(1, "02"), scheduled(2, "03")], true);
    expect(others).toEqual([]);
    expect(group).toMatchObject({
      count: 3,
      objects: ["pod/a-worker-0", "pod/a-worker-1", "pod/a-worker-2"],
      first: "2026-01-01T00:00:01Z",
      last: "2026-01-01T00:00:03Z",
    });
  });

  test("that differ in more than the name stay apart, and repeated ones are counted", () => {
    const events = [
      event("BackOff", "pod/a-worker-0", "05", {
        type: "Warning",
        count: 7,
        message: "Back-off restarting a-worker-0",
      }),
      event("Failed", "pod/a-worker-1", "06", { type: "Warning", message: "no such image" }),
      event("Created", "pod/a-worker-1", "01"),
    ];
    const groups = groupEvents(events, true);
    expect(groups.map(({ reason, count }) => [reason, count])).toEqual([
      ["Failed", 1],
      ["BackOff", 7],
      ["Created", 1],
    ]);
    expect(groups.filter((group) => matches(group, { search: "WORKER-1", type: "Warning" }))).toHaveLength(1);
    expect(groupEvents([...events, ...events], false)).toHaveLength(6);
  });

  test("about the job itself make its timeline, together with the times of its row", () => {
    const job = {
      row: {
        kind: "MPIJob" as const,
        name: "a",
        phase: "Failed" as const,
        state: "Failed (OutOfMemory)",
        health: "failed" as const,
        ended: true,
        actions: [],
        cause: "OutOfMemory",
        created: "2026-01-01T00:00:00Z",
        started: "2026-01-01T00:00:02Z",
        finished: "2026-01-01T00:00:09Z",
        deleting: false,
        gpus: 0,
        workers: { running: 0, pending: 0, failed: 0, of: 1 },
      },
      failure: { cause: "OutOfMemory", message: "killed", evidence: [] },
      conditions: [],
      pods: [],
      unread: [],
      warnings: [],
      attempts: 1,
      steps: [],
      attemptList: [],
      workerList: [],
      lastLines: [],
      fixes: [],
    };
    const events = [event("Scheduled", "pod/a-worker-0", "03"), event("MPIJobRunning", "mpijob/a", "04")];
    const moments = timelineOf(job, [event("MPIJobCreated", "mpijob/a", "00"), ...events]);
    expect(moments.map(({ what, word }) => `${what} ${word}`.trim())).toEqual([
      "created",
      "started",
      "event Running",
      "finished Failed (OutOfMemory)",
    ]);
    expect(moments.at(-1)).toMatchObject({ look: "bad", message: "killed" });
    const endOf = (row: Partial<JobRow>) => timelineOf({ ...job, row: { ...(job.row as JobRow), ...row } }, []).at(-1);
    const ends = [
      endOf({ state: "Cancelled", health: "cancelled" }),
      endOf({ state: "Succeeded (Collapsed)", health: "degraded" }),
      endOf({ state: "Deleting", health: "deleting", deleting: true }),
    ];
    expect(ends.map((end) => [end?.word, end?.look])).toEqual([
      ["Cancelled", "neutral"],
      ["Succeeded (Collapsed)", "warning"],
      ["Failed", "neutral"],
    ]);
  });
});

describe("a moment", () => {
  test("is found among times as the last one before it", () => {
    expect([5, 10, 15, 99, undefined].map((at) => placeOf([10, 12, 20], at))).toEqual([-1, 0, 1, 2, -1]);
  });
});
