import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { MemoryRouter } from "react-router-dom";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Schemas } from "../api/client";
import { Alerts, KnownAlerts } from "./alerts";

beforeEach(() => sessionStorage.clear());
afterEach(() => vi.unstubAllGlobals());

const full = {
  namespace: "team-cv",
  rule: "full",
  kind: "ResourceQuota",
  name: "compute",
  since: "2026-01-01T00:00:00Z",
  message: "requests.cpu: 9 of 10 used (90%)",
};
const long = { ...full, rule: "long", kind: "MPIJob", name: "resnet", message: "It has run for longer than 1d" };

function show(list: Partial<Schemas["ListAlertsResponse"]>) {
  const all = { alerts: [], total: list.alerts?.length ?? 0, unknown: [], ...list };
  return render(
    <MemoryRouter>
      <KnownAlerts list={all} />
    </MemoryRouter>,
  );
}

test("alerts say what holds, for what and by which rule, and lead to the job", () => {
  const { container } = show({ alerts: [full, long] });
  expect(screen.getByRole("heading", { name: /2 alerts/ })).toBeTruthy();
  expect(container.textContent).toContain("Quota team-cv/compute: requests.cpu: 9 of 10 used (90%) (Rule full, since");
  const link = screen.getByRole("link", { name: "team-cv/resnet" });
  expect(link.getAttribute("href")).toBe("/jobs/team-cv/mpijob/resnet");
});

test("alerts that were dismissed stay away for the session, and one that comes again is shown", async () => {
  const { unmount } = show({ alerts: [full] });
  await userEvent.click(screen.getByRole("button", { name: "Dismiss the alerts" }));
  expect(screen.queryByText(/requests.cpu/)).toBeNull();
  unmount();
  const again = show({ alerts: [full] });
  expect(screen.queryByText(/requests.cpu/)).toBeNull();
  again.unmount();
  show({ alerts: [{ ...full, since: "2026-01-02T00:00:00Z" }, full] });
  expect(screen.getByRole("heading", { name: /A notification rule applies now/ })).toBeTruthy();
});

test("of many alerts, a few are shown, with the number of the others", () => {
  const many = Array.from({ length: 7 }, (_, number) => ({ ...long, name: `job-${number}` }));
  const { container } = show({ alerts: many, total: 9 });
  expect(screen.getAllByRole("link")).toHaveLength(5);
  expect(container.textContent).toContain("4 more");
});

test("a rule that could not be evaluated is unknown", () => {
  show({ unknown: [{ namespace: "team-cv", rule: "full" }] });
  expect(screen.getByRole("heading", { name: /Unknown: what notification rules would report now/ })).toBeTruthy();
  expect(screen.getByText(/team-cv\/full/)).toBeTruthy();
});

async function answered(status: number, problem: object) {
  const answer = () =>
    Promise.resolve(
      new Response(JSON.stringify({ status, ...problem }), {
        status,
        headers: { "content-type": "application/problem+json" },
      }),
    );
  const fetched = vi.fn(answer);
  vi.stubGlobal("fetch", fetched);
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const { container } = render(
    <QueryClientProvider client={queries}>
      <MemoryRouter>
        <Alerts namespace="team-cv" />
      </MemoryRouter>
    </QueryClientProvider>,
  );
  await waitFor(() => expect(fetched).toHaveBeenCalled());
  await waitFor(() => expect(queries.isFetching()).toBe(0));
  return container;
}

test("without the store, what holds is unknown and not nothing", async () => {
  const problem = { code: "Unavailable", reason: "StoreUnavailable", message: "the store is away" };
  const container = await answered(503, problem);
  expect(container.textContent).toContain("Unknown: what notification rules would report now");
  expect(container.textContent).toContain("the store is away");
});

test("a missing permission to list jobs is reported by the page, not by an alert", async () => {
  const container = await answered(403, { code: "NotAllowed", reason: "Forbidden", message: "no" });
  expect(container.textContent).toBe("");
});
