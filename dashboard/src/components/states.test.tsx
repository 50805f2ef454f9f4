import { afterEach, expect, test } from "vitest";
import { ProblemError } from "../api/problem";
import { describeError } from "./states";

afterEach(() => localStorage.clear());

test("who never was here is asked to sign in, and not told that a session has ended", () => {
  const refused = new ProblemError({ code: "Unauthenticated", title: "no token" } as never);
  expect(describeError(refused)).toMatchObject({ title: "Sign in to see training jobs", status: "info" });
  localStorage.setItem("training.signed-in", "yes");
  expect(describeError(refused)).toMatchObject({ title: "You are signed out", status: "warning" });
  expect(describeError(refused).body).toContain("session has ended");
});
