import { describe, expect, test } from "vitest";
import type { JobRow } from "../api/client";
import { type Action, permits } from "./actions";

describe("what the state of a job permits", () => {
  test("is what the service lists, also of actions that this page does not have", () => {
    const row = { actions: ["thaw", "delete"] } as unknown as JobRow;
    const all: Action[] = ["suspend", "resume", "cancel", "retry", "delete"];
    expect(all.filter((action) => permits(row, action))).toEqual(["delete"]);
  });
});
