import { describe, expect, test } from "vitest";
import { type JobsPage, patchPage } from "./cache";
import type { JobRow } from "./client";
import { backoff } from "./stream";

const row = (name: string, phase: JobRow["phase"] = "Running"): JobRow => ({
  kind: "MPIJob",
  namespace: "team-cv",
  name,
  phase,
  gpus: 0,
  deleting: false,
  ended: false,
  actions: [],
});
const page: JobsPage = { jobs: [row("a"), row("b"), row("c")], total: 3, metrics: [], notes: [] };

describe("an event of the stream", () => {
  test("replaces the rows that changed, where they are", () => {
    const patched = patchPage(page, { jobs: [row("b", "Failed")], deleted: [] });
    expect(patched.jobs.map((job) => [job.name, job.phase])).toEqual([
      ["a", "Running"],
      ["b", "Failed"],
      ["c", "Running"],
    ]);
  });

  test("adds no row, because the service knows the order and the page", () => {
    expect(patchPage(page, { jobs: [row("new")], deleted: [] }).jobs).toHaveLength(3);
  });

  test("removes deleted jobs, but not others of the same name", () => {
    const gone = { kind: "mpijob", namespace: "team-cv", name: "a" };
    const elsewhere = { kind: "MPIJob", namespace: "team-nlp", name: "b" };
    const otherKind = { kind: "TrainJob", namespace: "team-cv", name: "c" };
    const patched = patchPage(page, { jobs: [], deleted: [gone, elsewhere, otherKind] });
    expect(patched.jobs.map((job) => job.name)).toEqual(["b", "c"]);
  });
});

describe("the wait before another attempt", () => {
  test("grows to a limit and differs between pages", () => {
    expect([0, 1, 2, 20].map((attempt) => backoff(attempt, 1))).toEqual([500, 1000, 2000, 30_000]);
    expect(backoff(20, 0)).toBe(15_000);
  });
});
