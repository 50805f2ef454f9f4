import { expect, test } from "vitest";
import { stepped } from "./fields";

test("a number goes up and down by one, and not below the least", () => {
  expect([stepped(2, 1, 1), stepped(2, -1, 1), stepped(1, -1, 1), stepped(0, -1, 0)]).toEqual([
    3,
    1,
    undefined,
    undefined,
  ]);
  expect([stepped(-3, 1, 1), stepped(-3, -1, 1)]).toEqual([1, 1]);
});

test("an empty field goes up to the least, and another text stays", () => {
  expect([stepped(undefined, 1, 1), stepped(undefined, -1, 1)]).toEqual([1, undefined]);
  expect([stepped("many", 1, 1), stepped("many", -1, 1)]).toEqual([undefined, undefined]);
});
