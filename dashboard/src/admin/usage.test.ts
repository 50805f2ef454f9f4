import { expect, test } from "vitest";
import { linesOf } from "./usage";

const usage = [
  {
    namespace: "a",
    amounts: [
      { resource: "memory", hours: "4" },
      { resource: "nvidia.com/gpu", hours: "1.5", cost: "3.0000" },
    ],
  },
  {
    namespace: "b",
    amounts: [
      { resource: "nvidia.com/gpu", hours: "4.5", cost: "9.0000" },
      { resource: "cpu", hours: "0" },
      { resource: "memory", hours: "4" },
    ],
  },
];

test("GPUs come before CPUs and memory, with the share of each line in all of its resource", () => {
  expect(linesOf(usage).map(({ resource, namespace, share }) => [resource, namespace, share])).toEqual([
    ["nvidia.com/gpu", "b", 0.75],
    ["nvidia.com/gpu", "a", 0.25],
    ["nvidia.com/gpu", undefined, 1],
    ["cpu", "b", undefined],
    ["memory", "a", 0.5],
    ["memory", "b", 0.5],
    ["memory", undefined, 1],
  ]);
});

test("the lines of a resource are followed by their sum, whose cost is unknown if any is", () => {
  const totals = linesOf(usage).filter(({ isTotal }) => isTotal);
  expect(totals.map(({ resource, hours, amountCost }) => [resource, hours, amountCost])).toEqual([
    ["nvidia.com/gpu", "6", "12"],
    ["memory", "8", undefined],
  ]);
});
