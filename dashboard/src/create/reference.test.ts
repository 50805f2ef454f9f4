import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { kinds } from "../api/client";
import { pathsOf } from "./controls";
import { anchorOf, referenceOf } from "./reference";

/** Every field of the contract, by the name that it has in JSON. */
const fields = new Set(
  readFileSync(join(import.meta.dirname, "../../../openapi/training-v1.fields"), "utf8")
    .split("\n")
    .map((line) => /^(\w+\.\w+) = /.exec(line)?.[1]?.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())),
);

test("the help of every field leads to a place in the reference of the API", () => {
  expect(referenceOf("worker.limits")).toBe("/docs#JobPart.limits");
  const all = new Set([...kinds.flatMap(pathsOf), "hardware"]);
  expect(all.size).toBeGreaterThan(50);
  expect([...all].map(anchorOf).filter((anchor) => !fields.has(anchor))).toEqual([]);
});
