import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Schemas } from "../api/client";
import { QuotaCard } from "./totals";

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
