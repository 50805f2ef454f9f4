import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Job, JobRow } from "../api/client";
import { PhasesCard } from "./phases-card";

function show(health: JobRow["health"]) {
  const job = { row: { health }, steps: [{ name: "Queue", state: "Done" }] } as unknown as Job;
  return render(<PhasesCard job={job} />);
}

const phase = () => screen.queryByText("Queue");

test("the phases of a job that succeeded are folded, and open on request", async () => {
  show("succeeded");
  expect(phase()).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show the phases" }));
  expect(phase()).toBeVisible();
});

test("the phases of any other job are open, and stay so when it succeeds", () => {
  const { rerender } = show("running");
  expect(phase()).toBeVisible();
  const job = { row: { health: "succeeded" }, steps: [{ name: "Queue", state: "Done" }] } as unknown as Job;
  rerender(<PhasesCard job={job} />);
  expect(phase()).toBeVisible();
});
