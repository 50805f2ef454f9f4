import { render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { type FieldFault, ProblemError } from "../api/problem";
import { describeError, ErrorAlert } from "./states";

afterEach(() => localStorage.clear());

const problem = (message: string, fields: FieldFault[]) =>
  new ProblemError({ code: "Invalid", title: "Invalid", status: 422, message, fields } as never);

test("who never was here is asked to sign in, and not told that a session has ended", () => {
  const refused = new ProblemError({ code: "Unauthenticated", title: "no token" } as never);
  expect(describeError(refused)).toMatchObject({ title: "Sign in to see training jobs", status: "info" });
  localStorage.setItem("training.signed-in", "yes");
  expect(describeError(refused)).toMatchObject({ title: "You are signed out", status: "warning" });
  expect(describeError(refused).body).toContain("session has ended");
});

test("the faults of a request are listed by the names of their fields, in place of the message that repeats them", () => {
  const field = { path: "spec.mpiReplicaSpecs[Worker].replicas", fault: "must be at least 1", fix: "" };
  const { container, rerender } = render(<ErrorAlert error={problem(`${field.path}: ${field.fault}`, [field])} />);
  expect(screen.getByRole("listitem").textContent).toBe("replicas (Worker) must be at least 1");
  expect(container.textContent).not.toContain(`${field.path}: ${field.fault}`);
  rerender(<ErrorAlert error={problem("found 2 errors; nothing was changed", [field, { ...field, path: "name" }])} />);
  expect(container.textContent).toContain("found 2 errors; nothing was changed");
  expect(screen.getAllByRole("listitem")).toHaveLength(2);
});
