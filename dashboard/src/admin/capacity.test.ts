import { expect, test } from "vitest";
import { questionOf } from "./capacity";

test("a question is asked when the address has a number of Workers, and a queue only within a namespace", () => {
  const question = (address: string, namespace = "") => questionOf(new URLSearchParams(address), namespace);
  expect(question("gpus=4")).toBeUndefined();
  expect(question("workers=8&gpus=4&memory=64Gi&queue=gpus")).toEqual({ workers: 8, gpus: 4, memory: "64Gi" });
  expect(question("workers=8&queue=gpus", "team")).toEqual({ workers: 8, namespace: "team", queue: "gpus" });
});
