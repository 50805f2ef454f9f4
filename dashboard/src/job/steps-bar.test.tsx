import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { JobStep } from "../api/client";
import { StepsBar } from "./steps-bar";

const steps: JobStep[] = [
  { name: "Launch", state: "Done" },
  { name: "Train", state: "Failed", actor: "User" },
];

test("a step at which a job failed is red, and says who must act", () => {
  const { container } = render(<StepsBar steps={steps} workers={2} health="failed" />);
  expect(screen.getByLabelText("Train: failed")).toBeTruthy();
  expect(screen.getByText("You must act")).toBeTruthy();
  expect(container.querySelectorAll(".pf-m-danger")).toHaveLength(1);
});

test("a step at which a person cancelled the job is not red, and nobody must act", () => {
  const { container } = render(<StepsBar steps={steps} workers={2} health="cancelled" />);
  expect(screen.getByLabelText("Train: cancelled")).toBeTruthy();
  expect(screen.queryByText("You must act")).toBeNull();
  expect(container.querySelectorAll(".pf-m-danger")).toHaveLength(0);
});
