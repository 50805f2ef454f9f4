import { describe, expect, test } from "vitest";
import { figuresOf, longRunning } from "./figures";

const read = {
  models: [
    { model: "A100", gpus: 8, used: 6, free: 2, asked: 1 },
    { model: "H100", gpus: 4, used: 4, free: 0, asked: 8 },
  ],
  nodes: [
    { name: "a", gpus: 8, usable: true },
    { name: "b", gpus: 4, usable: false },
  ],
  quotas: [
    { namespace: "half", percent: 50, resources: [] },
    { namespace: "near", percent: 90, resources: [] },
    { namespace: "full", percent: 100, resources: [] },
  ],
  unread: [],
};

describe("the figures", () => {
  test("are sums over all models, nodes and quotas", () => {
    expect(figuresOf(read)).toEqual({
      gpus: 12,
      used: 10,
      free: 2,
      asked: 9,
      unusableNodes: 1,
      nearQuota: [
        { namespace: "full", percent: 100 },
        { namespace: "near", percent: 90 },
      ],
    });
  });

  test("are 0 where there is nothing, and unknown where it may not be read", () => {
    const nothing = { models: [], nodes: [], quotas: [], unread: [] };
    expect(figuresOf(nothing)).toEqual({ gpus: 0, used: 0, free: 0, asked: 0, unusableNodes: 0, nearQuota: [] });
    const unread = figuresOf({ ...nothing, unread: ["nodes", "quotas"] });
    expect(Object.values(unread)).toEqual(Object.values(unread).map(() => undefined));
  });

  test("of what pods hold are unknown where a person may not see all pods", () => {
    const models = [{ model: "A100", gpus: 8 }];
    const figures = figuresOf({ ...read, models, unread: ["pods of all namespaces"] });
    expect(figures).toMatchObject({ gpus: 8, used: undefined, free: undefined, asked: undefined });
  });
});

test("a job runs long from the second after a day on, and not while it waits", () => {
  const now = Date.parse("2026-01-02T00:00:01Z");
  const rows = ["2025-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", undefined];
  expect(
    longRunning(
      rows.map((runningSince) => ({ runningSince })),
      now,
    ),
  ).toBe(2);
});
