import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Schemas } from "../api/client";
import { amountsText, QuotaCard, TotalsCard } from "./totals";

function show(start: string | undefined) {
  const answer = { waits: [], availability: start && { start } } as unknown as Schemas["CreateJobResponse"];
  return render(<QuotaCard check={{ answer, faults: [], error: undefined, isChecking: false }} free={[]} />);
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

test("a resource that no pod requests is not set: pods may use any amount of it, not 0", () => {
  const { container } = render(<TotalsCard requested={{ gpus: 0, cpu: "0", memory: "0" }} />);
  expect([...container.querySelectorAll("dd")].map((value) => value.textContent)).toEqual(["0", "not set", "not set"]);
});

test("an amount that cannot be read is shown as it came, and one that was not sent is unknown, never 0", () => {
  const { container } = render(<TotalsCard requested={{ gpus: 1, cpu: "12x", memory: "1Ei" }} />);
  const values = [...container.querySelectorAll("dd")].map((value) => value.textContent);
  expect(values).toEqual(["1", "12x", "1\u00a0EiB"]);
  expect(amountsText({ gpus: 0, cpu: "0", memory: "16GB" })).toBe("0 GPUs, 0 CPUs, 16GB");
  expect(amountsText({ gpus: 2, cpu: "" })).toBe("2 GPUs, unknown CPUs, unknown memory");
});

test("free GPUs are shown in the panel, and a screen reader does not announce each of their changes", () => {
  const check = { answer: undefined, faults: [], error: undefined, isChecking: false };
  render(<QuotaCard check={check} free={["Free now: 3 of 8 A100"]} />);
  expect(screen.getByText("Free now: 3 of 8 A100").closest("[role=status]")).toBeNull();
});
