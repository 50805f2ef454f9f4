import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Schemas } from "../api/client";
import type { MetricColumn } from "./filter";
import {
  columnChoices,
  columnTitle,
  type KnownMetrics,
  knownMetrics,
  MetricCell,
  MetricsContext,
} from "./metric-columns";

const answer: Schemas["ListJobsResponse"] = {
  jobs: [],
  notes: [],
  metrics: [
    { uid: "u", name: "loss", last: 0.5, lowest: 0.25, notFinite: 0 },
    { uid: "v", name: "accuracy", highest: 0, notFinite: 2 },
  ],
};

function textOf(uid: string, column: MetricColumn, known: KnownMetrics | undefined = knownMetrics(answer)) {
  const cell = <MetricCell uid={uid} column={column} />;
  return render(<MetricsContext.Provider value={known}>{cell}</MetricsContext.Provider>).container.textContent;
}

test("a value that the service knows is shown, 0 too", () => {
  expect(textOf("u", "last:loss")).toBe("0.5");
  expect(textOf("u", "lowest:loss")).toBe("0.25");
  expect(textOf("v", "highest:accuracy")).toBe("02 NaN or infinite");
});

test("a value that is unknown is no number, and says why", () => {
  expect(textOf("u", "highest:loss")).toBe("–");
  screen.getByTitle("Unknown: the service has no such value of this job");
  expect(textOf("v", "last:loss", knownMetrics({ ...answer, notes: ["output: the store is full"] }))).toBe("–");
  screen.getByTitle("Unknown: output: the store is full");
});

test("until the values are there, nothing is said about them", () => {
  const cell = <MetricCell uid="u" column="last:loss" />;
  expect(render(cell).container.textContent).toBe("");
});

test("every value of a metric of the page can be chosen, and what was chosen stays a choice", () => {
  const choices = columnChoices(knownMetrics(answer), ["last:reward"]);
  expect(choices.map(columnTitle)).toEqual(
    ["Accuracy", "Loss", "reward"].flatMap((name) => [`${name} (last)`, `${name} (lowest)`, `${name} (highest)`]),
  );
  expect(columnChoices(undefined, ["last:reward"])).toHaveLength(3);
});
