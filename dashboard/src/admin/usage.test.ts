import { expect, test } from "vitest";
import { linesOf } from "./usage";

test("each resource's largest use is a full bar, and comes first", () => {
  const usage = [
    { namespace: "a", amounts: [{ resource: "nvidia.com/gpu", hours: "1.5" }] },
    {
      namespace: "b",
      amounts: [
        { resource: "nvidia.com/gpu", hours: "6" },
        { resource: "cpu", hours: "0" },
      ],
    },
  ];
  expect(linesOf(usage).map(({ resource, namespace, share }) => [resource, namespace, share])).toEqual([
    ["cpu", "b", 0],
    ["nvidia.com/gpu", "b", 1],
    ["nvidia.com/gpu", "a", 0.25],
  ]);
});
