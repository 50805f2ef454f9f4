import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { MemoryRouter } from "react-router-dom";
import { expect, test } from "vitest";
import { keys } from "../api/cache";
import type { Job } from "../api/client";
import { readManifest } from "./manifest";
import { Workers } from "./workers";

const jobRef = { namespace: "team", kind: "mpijob", name: "pi" } as const;

// The pod of a failed Worker runs on until it is removed.
function show(address: string, state: string) {
  const pod = { name: "pi-worker-1", role: "Worker", index: 1, state: "Running", health: "running", restarts: 0 };
  const workerList = [
    { index: 0, health: "gone", state: "" },
    { index: 1, health: "failed", pod: pod.name, state },
  ];
  const job = { pods: [pod], workerList, row: { ended: true } } as unknown as Job;
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  queries.setQueryData([...keys.job(jobRef), "events"], []);
  queries.setQueryData([...keys.job(jobRef), "words", pod.name, pod.restarts, pod.state], []);
  render(
    <QueryClientProvider client={queries}>
      <MemoryRouter initialEntries={[address]}>
        <Workers
          job={job}
          jobRef={jobRef}
          manifest={readManifest(undefined)}
          live={false}
          isGone={false}
          may={() => true}
          start={() => {}}
        />
      </MemoryRouter>
    </QueryClientProvider>,
  );
}

test.each([
  ["Running", "Failed"],
  ["OutOfMemory", "OutOfMemory"],
])("a Worker that failed has no state of a pod that runs on: %s", (sent, shown) => {
  show("/workers?worker=1", sent);
  const row = screen.getByRole("row", { name: /pi-worker-1/ });
  expect(within(row).getByText(shown)).toBeTruthy();
  // In the row, and in the details below it.
  expect(screen.getAllByText(shown, { ignore: "option" })).toHaveLength(2);
  expect(screen.queryByText("Running", { ignore: "option" })).toBeNull();
});

test("the grid does not call a failed Worker running either", () => {
  show("/workers?worker=1&view=grid", "Running");
  expect(screen.getByRole("option", { name: "Worker 1, Failed" })).toBeTruthy();
  expect(screen.queryByText("Running", { ignore: "option" })).toBeNull();
});
