import { describe, expect, test } from "vitest";
import type { Pod } from "../api/client";
import { comparePods, type Entry, matchesPod } from "./pod-table";
import { target } from "./worker-grid";

const entry = (index: number | undefined, change: Partial<Pod> = {}, health: Entry["health"] = "running"): Entry => ({
  pod: {
    name: `p-${index}`,
    role: index === undefined ? "Launcher" : "Worker",
    index,
    ready: true,
    restarts: 0,
    gpus: 0,
    ...change,
  },
  health,
  state: change.state ?? "",
  exists: true,
});
const order = (entries: Entry[], ...by: Parameters<typeof comparePods>) =>
  [...entries].sort(comparePods(...by)).map(({ pod }) => pod.index ?? "L");

describe("the table of pods", () => {
  test("has the Launcher first and Workers by number, not by name", () => {
    expect(order([entry(10), entry(2), entry(undefined)], "pod", false)).toEqual(["L", 2, 10]);
    expect(order([entry(10), entry(2), entry(undefined)], "pod", true)).toEqual([10, 2, "L"]);
  });

  test("puts the unhealthy first, and pods without a value last", () => {
    const entries = [entry(0), entry(1, {}, "failed"), entry(2, {}, "blocked")];
    expect(order(entries, "state", false)).toEqual([1, 2, 0]);
    const nodes = [entry(0), entry(1, { node: "b" }), entry(2, { node: "a" })];
    expect(order(nodes, "node", false)).toEqual([2, 1, 0]);
    expect(order(nodes, "node", true)).toEqual([1, 2, 0]);
  });

  test("is searched by name, node, state and what a pod waits for", () => {
    const pod = entry(3, { node: "gpu-node-1", state: "ErrImagePull", waitsFor: "no such image" }, "blocked");
    expect(["P-3", "GPU", "pull", "such image", "x"].map((search) => matchesPod(pod, search, undefined))).toEqual([
      true,
      true,
      true,
      true,
      false,
    ]);
    expect([matchesPod(pod, "", "blocked"), matchesPod(pod, "", "failed")]).toEqual([true, false]);
  });
});

describe("the grid of Workers", () => {
  test("is walked with the arrow keys and does not run over its edges", () => {
    const from = (key: string, place: number) => target(key, place, 10, 4);
    expect([from("ArrowRight", 0), from("ArrowDown", 0), from("ArrowUp", 5), from("ArrowLeft", 0)]).toEqual([
      1, 4, 1, 0,
    ]);
    expect([from("ArrowDown", 8), from("Home", 7), from("End", 0), from("a", 3)]).toEqual([8, 0, 9, undefined]);
  });
});
