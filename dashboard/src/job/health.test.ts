import { describe, expect, test } from "vitest";
import type { Job } from "../api/client";
import { countBy, stateText, workersOf } from "./health";

const job = {
  pods: [
    { name: "pi-launcher-x", role: "Launcher" },
    { name: "pi-worker-1", role: "Worker", state: "Running", health: "running" },
  ],
  workerList: [
    { index: 0, health: "gone" },
    { index: 1, health: "running", pod: "pi-worker-1", state: "Running" },
    { index: 2, health: "failed", state: "OutOfMemory" },
    { index: 3, health: "thawing" },
  ],
} as unknown as Job;

describe("the Workers of a job", () => {
  test("are those that the service lists, with their pods", () => {
    expect(workersOf(job).map(({ index, health, pod, state }) => [index, health, pod?.name, state])).toEqual([
      [0, "gone", undefined, ""],
      [1, "running", "pi-worker-1", "Running"],
      [2, "failed", undefined, "OutOfMemory"],
      [3, "thawing", undefined, ""],
    ]);
  });

  test("that failed while their pods run on are not called running", () => {
    const pods = [{ name: "pi-worker-0", role: "Worker", state: "Running", health: "running" }];
    const stateOf = (state: string) => {
      const workerList = [{ index: 0, health: "failed", pod: "pi-worker-0", state }];
      return workersOf({ pods, workerList } as unknown as Job).map(stateText);
    };
    expect([stateOf("Running"), stateOf("OutOfMemory")]).toEqual([["Failed"], ["OutOfMemory"]]);
  });

  test("are counted, those of a health that is not known too", () => {
    expect(countBy(workersOf(job))).toEqual([
      ["failed", 1],
      ["running", 1],
      ["gone", 1],
      ["thawing", 1],
    ]);
  });
});
