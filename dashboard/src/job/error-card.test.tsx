import { expect, test } from "vitest";
import { unquoted } from "./error-card";

test("what the program said last is shown once", () => {
  const lines = ["epoch 3", "  MemoryError: batch 17"];
  expect(unquoted(lines, ["MemoryError: batch 17"])).toEqual(lines);
  expect(unquoted(lines, ["MemoryError: batch 17", "epoch 3"])).toEqual([]);
  expect(unquoted([], ["OOMKilled"])).toEqual([]);
});
