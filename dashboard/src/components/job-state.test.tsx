import { readFileSync } from "node:fs";
import { render, screen } from "@testing-library/react";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { JobRow } from "../api/client";
import { type Action, permits } from "../jobs/actions";
import { JobState, lookOf, workersText } from "./job-state";

type Case = { case: string; status?: object; row: JobRow };

// The training service computes the rows of the same cases.
const cases: Case[] = parse(readFileSync("../openapi/states.yaml", "utf8"));
const actions: Action[] = ["suspend", "resume", "cancel", "retry", "delete"];

describe("the state of a job", () => {
  test.each(cases)("is shown as the service sends it: $case", ({ row }) => {
    const { container } = render(<JobState row={row} />);
    expect(container.textContent).toBe(row.state);
    expect(actions.filter((action) => permits(row, action))).toEqual(
      actions.filter((action) => row.actions.includes(action)),
    );
  });

  test("says why when it is pointed at", () => {
    const row = cases.find(({ row }) => row.state === "Retrying (OutOfMemory)")?.row;
    if (!row) throw new Error("no such case");
    render(<JobState row={row} />);
    expect(screen.getByTitle(/attempt 2 of 4 of the Launcher starts at about/)).toBeTruthy();
  });

  test("of a job that a person ended is not red, and one that is not known has no look of another", () => {
    const colorOf = (state: string) => lookOf(cases.find(({ row }) => row.state === state)?.row ?? {}).color;
    expect([colorOf("Failed (WorkerLost)"), colorOf("Cancelled"), colorOf("Succeeded (Collapsed)")]).toEqual([
      "red",
      "grey",
      "orange",
    ]);
    expect(lookOf({ health: "thawing" as never })).toEqual({ color: "grey" });
  });

  test("decides which Workers are counted", () => {
    const row = (ended: boolean) => ({ ended, workers: { running: 2, pending: 1, failed: 0, of: 3 } }) as JobRow;
    expect([workersText(row(false)), workersText(row(true))]).toEqual(["2/3 Running, 1 Pending", "3 Workers"]);
  });

  test("of a failure that names a Worker counts it", () => {
    const row = cases.find(({ case: name }) => name === "a failure of one Worker, whose pod runs on")?.row;
    expect(row && workersText(row)).toBe("Failed - 1/4 Workers failed");
  });

  test("has the counts of Workers that the service sends", () => {
    const text = (running: number, pending: number, failed: number) =>
      workersText({ ended: false, workers: { running, pending, failed, of: 8 } } as JobRow);
    expect([text(0, 0, 0), text(5, 2, 1)]).toEqual(["0/8 Running", "5/8 Running, 2 Pending, 1 Failed"]);
  });
});
