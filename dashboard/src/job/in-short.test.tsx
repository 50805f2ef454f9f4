import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, within } from "@testing-library/react";
import { MemoryRouter } from "react-router-dom";
import { expect, test } from "vitest";
import { keys } from "../api/cache";
import type { Job, JobRow } from "../api/client";
import { InShort } from "./in-short";
import { readManifest } from "./manifest";
import type { JobMetrics } from "./metrics-data";

const jobRef = { namespace: "team", kind: "mpijob", name: "learns" } as const;
const manifest = readManifest(`
kind: MPIJob
spec:
  mpiReplicaSpecs:
    Launcher: { template: { spec: { containers: [{ image: train:1, command: [mpirun, python3, -c, "print(1)"] }] } } }
    Worker:
      replicas: 2
      template:
        spec: { containers: [{ image: train:1, resources: { limits: { cpu: 500m, memory: 16Gi, nvidia.com/gpu: 4 } } }] }
`);
const loss: JobMetrics["training"][number] = {
  name: "loss",
  start: "2026-01-01T00:00:00Z",
  seconds: [],
  values: [],
  notFinite: 0,
  points: [
    { seconds: 0, value: 2 },
    { seconds: 1, value: 0.5 },
  ],
};
const worker = (index: number, percent: number): JobMetrics["pods"][number] => ({
  role: "Worker",
  index,
  seconds: [],
  cpuMillis: [],
  memoryMib: [],
  measured: [
    { name: "gpuUtilizationPercent", gpu: "0", start: "2026-01-01T00:00:00Z", seconds: [0], values: [percent] },
  ],
});

type Known = { row?: Partial<JobRow>; metrics?: JobMetrics; cost?: { currency: string; cost: string } };

function show({ row, metrics, cost }: Known) {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  const key = keys.job(jobRef);
  queries.setQueryData([...key, "metrics", []], metrics ?? { pods: [], training: [], notes: [] });
  queries.setQueryData([...key, "cost", "1"], cost ?? { currency: "", cost: "" });
  const job = { row: { uid: "1", created: "2026-01-01T00:00:00Z", phase: "Running", gpus: 0, ...row } } as Job;
  render(
    <QueryClientProvider client={queries}>
      <MemoryRouter>
        <InShort job={job} jobRef={jobRef} manifest={manifest} live />
      </MemoryRouter>
    </QueryClientProvider>,
  );
}

/** The value of a term, undefined if the card does not have it. */
function textOf(term: string): string | null | undefined {
  const group = screen.queryByText(term)?.closest<HTMLElement>(".pf-v6-c-description-list__group");
  return group && within(group).getByRole("definition").textContent;
}

test("a job's card has what it runs, and how large it is", () => {
  show({ row: { gpus: 8 } });
  expect(textOf("Image")).toBe("train:1");
  expect(textOf("Command")).toContain("mpirun python3 -c 'print(1)'");
  expect(textOf("Size")).toBe("1 × Launcher2 × Worker: 0.5 CPU, 16\u00a0GiB each8 GPUs in total");
});

test("it has how far the job is, what it reported last, the slowest Worker and the cost", () => {
  const metrics = { pods: [worker(0, 98), worker(1, 20)], training: [loss], notes: [] };
  show({
    row: { progress: { percent: 40, remainingSeconds: 90 } },
    metrics,
    cost: { currency: "EUR", cost: "3.1000" },
  });
  expect(textOf("Progress")).toContain("1m 30s");
  expect(screen.getByRole("progressbar")).toHaveAttribute("aria-valuenow", "40");
  expect(screen.getByRole("link", { name: "Loss 0.5" })).toHaveAttribute("href", "/jobs/team/mpijob/learns/metrics");
  expect(textOf("Lowest GPU utilisation")).toBe("Worker 1: 20 %; the highest is Worker 0: 98 %");
  expect(textOf("Cost so far")).toBe("3.10 EUR");
});

test("what is unknown is called so, and what does not exist is left out", () => {
  show({});
  expect(textOf("Progress")).toBe("Unknown: the program reports none");
  expect(["Last reported", "Lowest GPU utilisation", "Cost so far"].map(textOf)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test("a job that waits or has ended has no progress", () => {
  show({ row: { phase: "Succeeded", ended: true }, cost: { currency: "EUR", cost: "3.1000" } });
  expect(textOf("Progress")).toBeUndefined();
  expect(textOf("Cost")).toBe("3.10 EUR");
});
