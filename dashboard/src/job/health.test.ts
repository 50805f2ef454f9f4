import { describe, expect, test } from "vitest";
import type { Job, Pod } from "../api/client";
import { countBy, healthOf, workersOf } from "./health";

const pod = (change: Partial<Pod>): Pod => ({ role: "Worker", ready: false, restarts: 0, gpus: 0, ...change });

describe("the health of a pod", () => {
  test("is one of few, whatever the pod's state is called", () => {
    const table: [Partial<Pod>, string][] = [
      [{ state: "Running", ready: true }, "running"],
      [{ state: "Running" }, "starting"],
      [{ state: "ContainerCreating" }, "starting"],
      [{ state: "Init:0/1" }, "starting"],
      [{ state: "Unschedulable", waitsFor: "a node" }, "blocked"],
      [{ state: "ErrImagePull", waitsFor: "container w" }, "blocked"],
      [{ state: "Init:CrashLoopBackOff", waitsFor: "container w" }, "blocked"],
      [{ state: "OOMKilled", exitCode: 137 }, "failed"],
      [{ state: "Evicted" }, "failed"],
      [{ state: "Completed", exitCode: 0 }, "done"],
      [{ state: "Terminating", ready: true }, "gone"],
    ];
    for (const [change, health] of table) expect([change.state, healthOf(pod(change))]).toEqual([change.state, health]);
  });
});

describe("the Workers of a job", () => {
  const job = (phase: "Pending" | "Running" | "Failed", pods: Pod[], worker?: number): Job => ({
    row: { phase, deleting: false, gpus: 0, workers: { running: 0, pending: 0, failed: 0, of: 3 } },
    failure: worker === undefined ? undefined : { cause: "OutOfMemory", worker, evidence: [] },
    conditions: [],
    pods,
    unread: [],
    attempts: 1,
    steps: [],
    attemptList: [],
    fixes: [],
  });
  const healths = (of: Job) => workersOf(of).map(({ health }) => health);

  test("are all shown, those without a pod too", () => {
    const pods = [pod({ index: 1, state: "Running", ready: true }), pod({ role: "Launcher", state: "Running" })];
    expect(healths(job("Running", pods))).toEqual(["starting", "running", "starting"]);
  });

  test("do not start while the job waits", () => {
    expect(healths(job("Pending", []))).toEqual(["waiting", "waiting", "waiting"]);
  });

  test("whose pods are gone after the end show the one that failed", () => {
    expect(healths(job("Failed", [], 1))).toEqual(["gone", "failed", "gone"]);
    expect(countBy(workersOf(job("Failed", [], 1)))).toEqual([
      ["failed", 1],
      ["gone", 2],
    ]);
  });
});
