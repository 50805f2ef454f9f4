import { expect, test } from "vitest";
import { texts, tolerations, variables, volumes } from "./rows";

test("every kind of entry is read back as it was written", () => {
  const all = [
    { path: "/data", claim: "data", subPath: "a", readOnly: true },
    { path: "/again", claim: "data" },
    { path: "/keys", secret: "keys" },
    { path: "/code", configMap: "code" },
    { path: "/dev/shm", size: "1Gi", inMemory: true },
  ];
  expect(volumes.write(volumes.read(all))).toEqual(all);
  const from = [
    { name: "A", secret: "s", key: "k" },
    { name: "B", configMap: "m", key: "k" },
  ];
  expect(variables.write(variables.read(from))).toEqual(from);
  const taints = [
    { key: "gpu", operator: "Equal", value: "x", effect: "NoExecute", tolerationSeconds: 60 },
    { key: "a" },
  ];
  expect(tolerations.write(tolerations.read(taints))).toEqual(taints);
  expect(texts.write(texts.read({ A: "1", B: "" }))).toEqual({ A: "1", B: "" });
});

test("an entry that is still empty is not sent", () => {
  expect(texts.write([{ name: "", value: "" }])).toBeUndefined();
  expect(volumes.write([{ path: "", source: "claim", object: "" }])).toBeUndefined();
  expect(volumes.faults([{ path: "", source: "claim", object: "" }])).toEqual([]);
  expect(variables.write([{ name: "", source: "secret", object: "", key: "" }])).toBeUndefined();
});

test("an entry that would mean something else, or replace another, is reported", () => {
  const nameless = [{ path: "/data", source: "claim", object: "" }];
  expect(volumes.write(nameless)).toBeUndefined();
  expect(volumes.faults(nameless)).toEqual(["Entry 1 does not name its source"]);
  const twice = [
    { name: "A", value: "1" },
    { name: "A", value: "2" },
  ];
  expect(texts.faults(twice)).toEqual(["“A” is there twice"]);
  expect(tolerations.faults([{ key: "a", seconds: "soon" }])).toEqual(["“soon” is not a whole number"]);
});

test("a value without a name is sent, and the service says what is wrong with it", () => {
  expect(texts.write([{ name: "", value: "x" }])).toEqual({ "": "x" });
});
