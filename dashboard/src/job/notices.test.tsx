import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router-dom";
import { expect, test } from "vitest";
import type { Job } from "../api/client";
import { Notices } from "./notices";

const job: Job = {
  manifest: "",
  conditions: [],
  pods: [],
  unread: [],
  warnings: [],
  attempts: 1,
  steps: [],
  attemptList: [],
  workerList: [],
  lastLines: [],
  fixes: [],
};

function shown(changes: Partial<Job>) {
  render(
    <MemoryRouter>
      <Notices error={undefined} job={{ ...job, ...changes }} isReplaced={false} onRetry={() => {}} />
    </MemoryRouter>,
  );
  return screen.queryAllByRole("heading", { level: 2 });
}

test("what may be wrong with a job that runs or succeeded is above its tabs", () => {
  const image = 'The image "train:1" is not mapped to a local environment';
  expect(shown({ warnings: [image] })).toHaveLength(1);
  expect(screen.getByText(image)).toBeTruthy();
});

test("nothing is said of a job about which there is nothing to say", () => {
  expect(shown({})).toHaveLength(0);
});
