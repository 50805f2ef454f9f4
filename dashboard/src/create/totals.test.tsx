import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Schemas } from "../api/client";
import { QuotaCard, TotalsCard } from "./totals";

function show(start: string | undefined) {
  const answer = { waits: [], availability: start && { start } } as unknown as Schemas["CreateJobResponse"];
  return render(<QuotaCard check={{ answer, faults: [], error: undefined, isChecking: false }} />);
}

test("a job can start now only if the service found it to", () => {
  show("Now");
  expect(screen.getByRole("status").textContent).toContain("The job can start now.");
});

test("resources that a person may not read are unknown, not free", () => {
  for (const start of ["Unknown", undefined]) {
    const { container, unmount } = show(start);
    expect(container.textContent).toContain("It is unknown whether enough resources are free now");
    expect(container.textContent).not.toContain("can start now");
    expect(container.querySelector(".app-good")).toBeNull();
    unmount();
  }
});

test("what a job requests is unknown until the service has counted it, never 0", () => {
  const { rerender } = render(<TotalsCard requested={undefined} />);
  expect(screen.getAllByText("unknown")).toHaveLength(3);
  rerender(<TotalsCard requested={{ gpus: 32, cpu: "1500m", memory: "" }} />);
  expect(["32", "1.5", "not set"].map((one) => screen.getAllByText(one).length)).toEqual([1, 1, 1]);
});
