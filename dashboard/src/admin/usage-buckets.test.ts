import { expect, test } from "vitest";
import { bucketsOf, groupsOf, topOf } from "./usage-buckets";

const row = (namespace: string, hours: string) => ({ namespace, amounts: [{ resource: "cpu", hours }] });
const nameOf = ({ namespace = "" }: { namespace?: string }) => namespace;

test("a period is cut into whole hours or days, of which the last goes on", () => {
  const now = new Date(2026, 0, 15, 10, 20, 30);
  for (const [period, count, first] of [
    ["1d", 24, new Date(2026, 0, 14, 11)],
    ["7d", 7, new Date(2026, 0, 9)],
    ["30d", 30, new Date(2025, 11, 17)],
    ["90d", 13, new Date(2025, 9, 17)],
  ] as const) {
    const buckets = bucketsOf(period, now);
    expect(buckets.length).toBe(count);
    expect(buckets[0]?.from).toBe(first.toISOString());
    expect(buckets[0]?.until).toBe(buckets[1]?.from);
    expect(buckets.at(-1)?.until).toBeUndefined();
  }
});

test("groups are the largest first, and what is left is one", () => {
  const usage = [[row("a", "1"), row("b", "2")], [row("c", "0.5"), row("d", "0.25"), row("b", "1")], []];
  expect(groupsOf(usage, "cpu", nameOf, 3)).toEqual([
    { name: "b", hours: [2, 1, 0], total: 3 },
    { name: "a", hours: [1, 0, 0], total: 1 },
    { name: "", hours: [0, 0.75, 0], total: 0.75 },
  ]);
  expect(groupsOf(usage, "memory", nameOf, 3)).toEqual([]);
});

test("the axis ends at a round number above the largest sum", () => {
  const top = (...hours: number[]) => topOf([{ name: "a", hours, total: 0 }]);
  expect([top(), top(0.03, 0.012), top(3), top(41, 7), top(100)]).toEqual([1, 0.04, 4, 50, 100]);
});
