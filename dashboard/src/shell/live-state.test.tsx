import { QueryClient, QueryClientProvider, useQuery } from "@tanstack/react-query";
import { act, render, screen } from "@testing-library/react";
import { useContext, useEffect } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveContext, LiveProvider } from "../api/live";
import { DisconnectedError, ProblemError } from "../api/problem";
import type { StreamState } from "../api/stream";
import { LiveState } from "./live-state";

// Only the date: queries need their timers.
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());
const later = () => vi.setSystemTime(Date.now() + 1_000);

let answer: () => Promise<string>;

function Page({ stream }: { stream: StreamState }) {
  const { report } = useContext(LiveContext);
  useEffect(() => report(stream), [report, stream]);
  useQuery({ queryKey: ["jobs", {}], queryFn: () => answer(), retry: false });
  return <LiveState />;
}

function show(stream: StreamState) {
  const queries = new QueryClient();
  const page = (shown: StreamState) => (
    <QueryClientProvider client={queries}>
      <LiveProvider>
        <Page stream={shown} />
      </LiveProvider>
    </QueryClientProvider>
  );
  const { rerender } = render(page(stream));
  return {
    become: (next: StreamState) => rerender(page(next)),
    read: () => act(() => queries.refetchQueries()),
  };
}

const isAway = () => Promise.reject(new DisconnectedError());
const word = () => screen.getByRole("button").getAttribute("aria-label");
const cutNow = (): StreamState => ({ state: "cut", since: Date.now(), retryAt: 0 });

test("a page whose stream is cut is updated only if its reads succeed, and says since when they do not", async () => {
  answer = async () => "jobs";
  const page = show({ state: "live" });
  await expect.poll(word).toBe("Live");
  await page.read();
  later();
  page.become(cutNow());
  expect(word(), "nothing was read yet").toBe("Connecting");
  answer = isAway;
  later();
  await page.read();
  await expect.poll(word).toMatch(/^Not updated since \d\d:\d\d:\d\d$/);
  expect(screen.getByRole("status")).toHaveTextContent(/^Not updated since/);
  answer = async () => "jobs";
  later();
  await page.read();
  await expect.poll(word).toBe("Updated every 5 seconds");
});

test("a page that never read anything says no time", async () => {
  answer = isAway;
  const page = show(cutNow());
  await page.read();
  await expect.poll(word).toBe("Not updated");
});

test("a refusal is an answer of the service", async () => {
  answer = async () => "jobs";
  const page = show(cutNow());
  await page.read();
  later();
  answer = () => Promise.reject(new ProblemError({ status: 404, code: "NotFound", fields: [] }));
  await page.read();
  await expect.poll(word).toBe("Updated every 5 seconds");
});
