import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import type { Job, JobRow } from "../api/client";
import { StepsCard } from "./steps-card";

function show(health: JobRow["health"]) {
  const job = { row: { health }, steps: [{ name: "Queue", state: "Done" }] } as unknown as Job;
  return render(<StepsCard job={job} />);
}

const step = () => screen.queryByText("Queue");

test("the steps of a job that succeeded are folded, and open on request", async () => {
  show("succeeded");
  expect(step()).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show the steps" }));
  expect(step()).toBeVisible();
});

test("the steps of any other job are open, and stay so when it succeeds", () => {
  const { rerender } = show("running");
  expect(step()).toBeVisible();
  const job = { row: { health: "succeeded" }, steps: [{ name: "Queue", state: "Done" }] } as unknown as Job;
  rerender(<StepsCard job={job} />);
  expect(step()).toBeVisible();
});
