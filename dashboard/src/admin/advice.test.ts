import { expect, test } from "vitest";
import { linesOf, othersOf } from "./advice";

const program = (name: string, memory: object, cpu: object) => ({
  namespace: "team",
  program: name,
  roles: [{ role: "Worker", memory, cpu }],
  runs: [{ name }],
});
const programs = [
  program("greedy", { verdict: "TooMuch", requested: "64Gi", peak: "2Gi", suggested: "2560Mi" }, { verdict: "Fits" }),
  program("right", { verdict: "Fits", requested: "4Gi", peak: "3Gi" }, { verdict: "Fits" }),
  program("new", { verdict: "Unknown" }, { verdict: "Unknown" }),
];

test("only requests that should change have a line", () => {
  const lines = linesOf(programs).map(({ program, resource, verdict, suggested }) => [
    program.program,
    resource,
    verdict,
    suggested,
  ]);
  expect(lines).toEqual([["greedy", "memory", "TooMuch", "2560Mi"]]);
});

test("the others are right, or too little is known of them", () => {
  expect(othersOf(programs)).toEqual({ right: 1, unknown: 1 });
});
