import { expect, test } from "vitest";
import { modelName, withTotal } from "./models";

test("a model without a label has its maker's name, and none is any", () => {
  expect(["NVIDIA-H100", "nvidia.com/gpu", "amd.com/gpu", "", undefined].map(modelName)).toEqual([
    "NVIDIA-H100",
    "NVIDIA, model unknown",
    "AMD, model unknown",
    "Any",
    "Any",
  ]);
});

test("several models have a row with their sum, in which the unknown stays unknown", () => {
  const one = { model: "A", gpus: 8, used: 3, free: 5, asked: 0 };
  const two = { model: "", gpus: 0, used: 0, free: 0, asked: 32 };
  expect(withTotal([one])).toEqual([one]);
  expect(withTotal([one, two]).at(-1)).toEqual({ model: "All", gpus: 8, used: 3, free: 5, asked: 32, isTotal: true });
  expect(withTotal([one, { ...two, used: undefined, free: undefined }]).at(-1)).toMatchObject({ gpus: 8, asked: 32 });
  expect(withTotal([one, { ...two, used: undefined }]).at(-1)?.used).toBeUndefined();
});
