import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { localeOf } from "./locale";

test("numbers and times are English, in the variant that the browser prefers", () => {
  expect([["de-DE", "en-GB", "en-US"], ["en"], ["de-DE", "fr"], []].map(localeOf)).toEqual([
    "en-GB",
    "en",
    "en-US",
    "en-US",
  ]);
});

test("no number or time is in the browser's own language", () => {
  const sources = join(import.meta.dirname, "..");
  const files = readdirSync(sources, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  expect(files.length).toBeGreaterThan(200);
  const found = files
    .filter((name) => !name.endsWith("locale.test.ts"))
    .filter((name) =>
      /Intl\.\w+\((?:undefined|\))|toLocale\w*String\(\)/.test(readFileSync(join(sources, name), "utf8")),
    );
  expect(found).toEqual([]);
});
