import { expect, test } from "vitest";
import type { Choices, Gpus } from "../api/choices";
import { DisconnectedError } from "../api/problem";
import { aboutChoice, listOf, offersOf } from "./offers";

const offers = (data: Partial<Choices>, gpus?: Gpus) =>
  offersOf({ data: { unknown: [], ...data }, error: null }, { data: gpus, error: null });
const queue = (name: string, more: object = {}) => ({ name, clusterQueue: "all", stopped: false, ...more });

test("a queue is offered with its room and what waits in it, or as stopped", () => {
  const free = { gpus: 2, cpu: "8", memory: "64Gi" };
  const queues = [queue("free", { free, pending: 1 }), queue("old", { free, stopped: true }), queue("closed")];
  const { items } = offers({ queues: { queues, more: false } }).queues;
  expect(items.map(({ about }) => about)).toEqual([
    "2 GPUs, 8 CPUs, 64\u00a0GiB free, 1 job waits",
    "stopped, admits no job",
    undefined,
  ]);
});

test("who may not read quotas sees the GPUs of a queue that the service counts for everybody", () => {
  const sums = [{ resource: "nvidia.com/gpu", gpus: 8, free: 0 }];
  const gpus = { queues: { queues: [{ name: "team", stopped: false, sums }] }, unknown: [] };
  const { items } = offers({ queues: { queues: [queue("team")], more: false } }, gpus).queues;
  expect(items).toEqual([{ value: "team", about: "0 of 8 nvidia.com/gpu free" }]);
});

test("a queue whose quota is unknown is offered with the reason", () => {
  const unknown = { part: "free", reason: "NotSelected" as const, message: "ClusterQueue all does not select a" };
  const about = [{ value: "team", about: unknown.message }];
  const own = { queues: [queue("team", { stopped: true, unknown })], more: false };
  expect(offers({ queues: own }).queues.items).toEqual(about);
  const gpus = { queues: { queues: [{ name: "team", stopped: true, sums: [], unknown }] }, unknown: [] };
  expect(offers({ queues: { queues: [queue("team")], more: false } }, gpus).queues.items).toEqual(about);
});

test("claims, priority classes and runtimes are offered with what tells them apart", () => {
  const claim = { name: "data", size: "100Gi", accessModes: ["ReadWriteMany"], phase: "Bound" as const };
  const { claims, priorityClasses, runtimes } = offers({
    claims: { claims: [claim, { ...claim, name: "new", phase: "Pending" }], more: false },
    priorityClasses: { classes: [{ name: "high", value: 1000, standard: true }], more: false },
    runtimes: {
      runtimes: [{ reference: "openmpi", framework: "mpi", mpi: "OpenMPI", nodes: 2, images: [] }],
      more: false,
    },
  });
  expect(claims.items.map(({ about }) => about)).toEqual([
    "100\u00a0GiB, ReadWriteMany",
    "100\u00a0GiB, ReadWriteMany, Pending",
  ]);
  expect(priorityClasses.items[0]?.about).toBe("priority 1000, for pods without a class");
  expect(runtimes.items[0]).toEqual({ value: "openmpi", about: "mpi, OpenMPI, 2 nodes" });
});

test("Secrets for pulling images are not offered to programs", () => {
  const secrets = [
    { name: "token", imagePull: false },
    { name: "pull", imagePull: true },
  ];
  expect(offers({ secrets: { secrets, more: false } }).secrets.items).toEqual([{ value: "token" }]);
});

test("what is unknown has no list but the reason, and what is empty or not read yet has neither", () => {
  const unknown = [{ part: "secrets", reason: "NotAllowed" as const, message: "you may not list Secrets" }];
  const known = offers({ configMaps: { names: [], more: false }, unknown });
  expect(listOf(known, "secrets")).toBeUndefined();
  expect(known.secrets.note).toBe("No list to choose from: you may not list Secrets");
  expect(known.configMaps).toEqual({ items: [], note: undefined });
  const none = { data: undefined, error: null };
  expect(offersOf(none, none).images).toEqual({ items: [], note: undefined });
  expect(offersOf({ data: undefined, error: new DisconnectedError() }, none).images.note).toBe(
    "No list to choose from: there was no answer",
  );
});

test("a list that is cut says so, unless the chosen item has something to tell", () => {
  const { claims } = offers({
    claims: { claims: [{ name: "data", size: "1Gi", accessModes: [], phase: "Bound" }], more: true },
  });
  expect(aboutChoice(claims, "other")).toBe("There are more than the list shows. They can be typed.");
  expect(aboutChoice(claims, "data")).toBe("1\u00a0GiB");
  expect(aboutChoice(claims, "data", true)).toBe("data: 1\u00a0GiB");
});
