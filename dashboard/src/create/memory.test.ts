import { expect, test } from "vitest";
import { meantMemory } from "./memory";

test.each([
  ["16", ["16Gi"]],
  ["0.5", ["0.5Gi"]],
  ["512", ["512Gi", "512Mi"]],
  ["4096", ["4096Mi"]],
  ["16GB", ["16Gi"]],
  ["16 Gi", ["16Gi"]],
  ["16gi", ["16Gi"]],
  ["16 gb", ["16Gi"]],
  ["512mb", ["512Mi"]],
  ["100m", ["100Mi"]],
  // Clear, or not even a number.
  ["16Gi", []],
  ["1.5G", []],
  ["64k", []],
  ["1048576", []],
  ["1e9", []],
  ["0", []],
  ["", []],
  ["lots", []],
])("%j of memory may mean %j", (text, meant) => {
  expect(meantMemory(text)).toEqual(meant);
});
