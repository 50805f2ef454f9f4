import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

/** Addresses of public sites, each with the reason why it may be here. */
const allowed: Readonly<Record<string, string>> = {
  "messages/common.ts: https://github.com/opendatahub-io/odh-dashboard/issues":
    "Feedback goes to the project. It is offered as that, and no help depends on it.",
};

test("pages link to no public site, because clusters may have no internet", () => {
  const root = import.meta.dirname;
  const isSource = (file: string) => /\.tsx?$/.test(file) && !/\.test\.tsx?$/.test(file) && file !== "api/schema.ts";
  const sources = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(isSource);
  expect(sources.length).toBeGreaterThan(150);
  const found = [...sources, "../index.html", "../signin.html"].flatMap((file) => {
    const lines = readFileSync(join(root, file), "utf8").split("\n");
    const code = lines.filter((line) => !/^\s*(?:\/\/|\/\*|\*)/.test(line)).join("\n");
    return [...code.matchAll(/https?:\/\/\w[^\s"'`<)]*/g)].map(([address]) => `${file}: ${address}`);
  });
  expect(found).toEqual(Object.keys(allowed));
});
