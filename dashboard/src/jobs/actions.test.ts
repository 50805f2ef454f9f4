import { describe, expect, test } from "vitest";
import type { JobRow } from "../api/client";
import { permits } from "./actions";

const allowed = (row: Partial<JobRow>) =>
  Object.entries(permits({ kind: "MPIJob", ...row } as JobRow)).flatMap(([action, is]) => (is ? [action] : []));

describe("what the state of a job permits", () => {
  test("a job that runs or waits can be suspended, cancelled and deleted", () => {
    expect(allowed({ phase: "Running" })).toEqual(["suspend", "cancel", "delete"]);
    expect(allowed({ phase: "Pending" })).toEqual(["suspend", "cancel", "delete"]);
    expect(allowed({ phase: "Pending", phaseReason: "Suspended" })).toEqual(["resume", "cancel", "delete"]);
  });

  test("a job that has ended can be run again and deleted", () => {
    expect(allowed({ phase: "Succeeded" })).toEqual(["retry", "delete"]);
    expect(allowed({ phase: "Failed" })).toEqual(["retry", "delete"]);
  });

  test("only an MPIJob can be cancelled, and nothing while a job is being deleted", () => {
    expect(allowed({ phase: "Running", kind: "TrainJob" })).toEqual(["suspend", "delete"]);
    expect(allowed({ phase: "Running", deleting: true })).toEqual([]);
  });
});
