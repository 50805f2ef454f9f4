import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Selectors of PatternFly's own elements, which its next version may change. */
const permitted = [
  // Every select, also those within PatternFly's own components.
  ".pf-v6-c-form-control.pf-v6-c-form-control > select",
];

test("styles are of our own elements: PatternFly's are set by its variables", () => {
  const files = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".css"),
  );
  expect(files.length).toBeGreaterThan(2);
  const selectors = files.flatMap((name) => readFileSync(join(import.meta.dirname, name), "utf8").split("\n"));
  const found = selectors.filter(
    (line) => /[.[]pf-v6-|"pf-(c|m)-/.test(line.split("{")[0] ?? "") && line.includes("{"),
  );
  expect(found.map((line) => line.replace("{", "").trim())).toEqual(permitted);
});
