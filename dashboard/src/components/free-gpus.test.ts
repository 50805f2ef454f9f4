import { expect, test } from "vitest";
import type { Gpus } from "../api/choices";
import { DisconnectedError } from "../api/problem";
import { freeGpus } from "./free-gpus";

const lines = (data: Partial<Gpus>, queue?: string) => freeGpus({ data: { unknown: [], ...data }, error: null }, queue);
const sum = (model: string, free: number, gpus: number, resource = "nvidia.com/gpu") => ({
  resource,
  model,
  gpus,
  free,
});
const late = (part: string) => ({ part, reason: "Late" as const, message: `${part} was not read in time` });

test("free GPUs are shown by model, with 0 for a model that has none free", () => {
  const cluster = { sums: [sum("A100", 3, 8), sum("L4", 0, 4)] };
  expect(lines({ cluster })).toEqual(["Free now: 3 of 8 A100, 0 of 4 L4"]);
});

test("partitions of a GPU are listed apart from whole GPUs of the same model", () => {
  const cluster = { sums: [sum("A100", 1, 8), sum("A100", 2, 7, "nvidia.com/mig-1g.5gb")] };
  expect(lines({ cluster })).toEqual(["Free now: 1 of 8 A100 (nvidia.com/gpu), 2 of 7 A100 (nvidia.com/mig-1g.5gb)"]);
});

test("a cluster without GPUs differs from one whose GPUs are unknown", () => {
  expect(lines({ cluster: { sums: [] } })).toEqual(["No node has GPUs"]);
  expect(lines({ unknown: [late("cluster")] })).toEqual([
    "It is not known how many GPUs are free: cluster was not read in time",
  ]);
  expect(lines({})).toEqual(["It is not known how many GPUs are free: The service gave no reason."]);
});

test("nothing is shown before the first answer, and earlier values are not shown after a failure", () => {
  expect(freeGpus({ data: undefined, error: null }, "team")).toEqual([]);
  const data = { cluster: { sums: [sum("A100", 3, 8)] }, queues: { queues: [] }, unknown: [] };
  expect(freeGpus({ data, error: new DisconnectedError() }, "team")).toEqual([
    "It is not known how many GPUs are free: there was no answer",
  ]);
});

test("the room in the chosen queue is shown: free, none in its quota, stopped or unknown", () => {
  const quota = [{ resource: "nvidia.com/gpu", gpus: 8, free: 2 }];
  const queues = {
    queues: [
      { name: "team", stopped: false, sums: quota },
      { name: "cpu", stopped: false, sums: [] },
      { name: "old", stopped: true, sums: quota },
      { name: "theirs", stopped: true, sums: [], unknown: { part: "sums", message: "it does not select a" } },
    ],
  };
  const inQueue = (queue: string) => lines({ cluster: { sums: [] }, queues }, queue).slice(1);
  expect(inQueue("team")).toEqual(["Free in the queue team: 2 of 8 nvidia.com/gpu"]);
  expect(inQueue("cpu")).toEqual(["The quota of the queue cpu has no GPUs"]);
  expect(inQueue("old")).toEqual(["The queue old is stopped: it admits no job"]);
  expect(inQueue("theirs")).toEqual([
    "It is not known how many GPUs are free in the queue theirs: it does not select a",
  ]);
  expect(inQueue("te")).toEqual([]);
  expect(lines({ cluster: { sums: [] }, unknown: [late("queues")] }, "team").slice(1)).toEqual([
    "It is not known how many GPUs are free in the queue team: queues was not read in time",
  ]);
});
