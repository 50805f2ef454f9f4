import { expect, test } from "vitest";
import { guideSection } from "./docs";

test("a link about a cause leads to its section in the guide of the service", () => {
  const published = "https://github.com/opendatahub-io/odh-mpi/blob/main/docs/guides/troubleshooting.md#outofmemory";
  expect(guideSection(published)).toBe("/docs/troubleshooting#outofmemory");
  expect(guideSection("https://example.com/")).toBeUndefined();
  expect(guideSection(undefined)).toBeUndefined();
});
