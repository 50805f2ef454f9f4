import { expect, test } from "vitest";
import { isMissing } from "./guide";

test("a kind is said to be missing only if the cluster is known not to have it", () => {
  const kinds = [
    { kind: "mpijob", state: "Installed" },
    { kind: "tfjob", state: "NotInstalled" },
    { kind: "trainjob", state: "Unknown" },
  ] as const;
  const missing = (kind: string) => isMissing([...kinds], kind);
  expect(["mpijob", "tfjob", "trainjob", "custom"].map(missing)).toEqual([false, true, false, false]);
  expect(isMissing(undefined, "tfjob")).toBe(false);
});
