import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { AdviceHint, linesOf, takeAdvice } from "./advice";

test("a better amount is taken over by its button", async () => {
  const take = vi.fn();
  const advice = { verdict: "TooMuch" as const, suggested: "2560Mi", message: "64Gi of memory is too much." };
  render(<AdviceHint advice={advice} onTake={take} />);
  await userEvent.click(screen.getByRole("button", { name: "Use 2560Mi" }));
  expect(take).toHaveBeenCalledWith("2560Mi");
});

test("a request that fits, or about which too little is known, has no hint", () => {
  const { container } = render(<AdviceHint advice={{ verdict: "Fits", message: "It fits." }} onTake={() => {}} />);
  expect(container.textContent).toBe("");
});

test("the highest use is shown as far as it is known", () => {
  const known = { role: "Worker", memory: { peak: "2Gi" }, cpu: { peak: "1500m" }, meanCpu: "500m" };
  expect(linesOf(known)).toEqual([
    ["Memory of a Worker", "at most 2\u00a0GiB"],
    ["CPU of a Worker", "at most 1.5, 0.5 on average"],
  ]);
  expect(linesOf({ role: "Launcher", memory: { verdict: "Unknown" } })).toEqual([]);
  expect(linesOf({ role: "Launcher", cpu: { peak: "200m" } })).toEqual([["CPU of a Launcher", "at most 0.2"]]);
});

test("a better amount is requested where the person requests one, else it is the most that a pod may use", () => {
  expect(takeAdvice("Worker", "memory", "2Gi")({ memory: "8Gi" })).toEqual({ memory: "2Gi" });
  const own = { memory: "8Gi", worker: { requests: { memory: "4Gi" } } };
  expect(takeAdvice("Worker", "memory", "2Gi")(own)).toEqual({
    memory: "8Gi",
    worker: { requests: { memory: "2Gi" } },
  });
  expect(takeAdvice("Launcher", "cpu", "1")({})).toEqual({ launcher: { limits: { cpu: "1" } } });
});
