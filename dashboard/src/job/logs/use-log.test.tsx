import { renderHook, waitFor } from "@testing-library/react";
import { afterEach, expect, test, vi } from "vitest";
import { plain } from "./query";
import { useLog } from "./use-log";

const jobRef = { namespace: "team", kind: "mpijob", name: "pi" } as const;

// What the pods write: two of them, whose lines arrive by turns.
const written = Array.from({ length: 9 }, (_, number) => {
  const pod = number % 3 === 2 ? "pi-worker-1" : "pi-worker-0";
  return { type: "line", pod, text: `line ${number}`, cursor: `${pod}@${number}`, evidence: false, also: [] };
});

/** A service that sends what follows the cursors, and whose connections break after so many bytes. */
function service(...lengths: number[]) {
  const addresses: URL[] = [];
  vi.stubGlobal("fetch", async (address: string) => {
    const asked = new URL(address, "http://localhost");
    addresses.push(asked);
    const last = new Map(asked.searchParams.getAll("cursor").map((cursor) => cursor.split("@") as [string, string]));
    const rest = written.filter(({ pod }, number) => number > Number(last.get(pod) ?? -1));
    const whole = new TextEncoder().encode(rest.map((item) => `${JSON.stringify(item)}\n`).join(""));
    const length = lengths[addresses.length - 1];
    const parts = [whole.slice(0, length)];
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const part = parts.shift();
        if (part) controller.enqueue(part);
        else if (length === undefined) controller.close();
        else controller.error(new TypeError("network error"));
      },
    });
    return new Response(body);
  });
  return addresses;
}

afterEach(() => vi.unstubAllGlobals());

test("a log that breaks twice goes on at the cursors, and loses and doubles no line", async () => {
  const bytes = (lines: number) => JSON.stringify(written[0]).length * lines;
  // Each connection breaks within a line.
  const addresses = service(bytes(4.5), bytes(2.5));
  const { result } = renderHook(() => useLog(jobRef, plain, true, ""));
  await waitFor(() => expect(result.current.state).toEqual({ state: "ended" }), { timeout: 10_000 });
  const { buffer } = result.current;
  expect(Array.from({ length: buffer.size }, (_, number) => buffer.at(number)?.text)).toEqual(
    written.map(({ text }) => text),
  );
  expect(addresses.map((address) => address.searchParams.getAll("cursor"))).toEqual([
    [],
    ["pi-worker-0@3", "pi-worker-1@2"],
    ["pi-worker-0@4", "pi-worker-1@5"],
  ]);
  for (const { pathname, searchParams } of addresses) {
    expect(pathname).toBe("/api/v1/namespaces/team/jobs/mpijob/pi/logs");
    expect(searchParams.get("follow")).toBe("true");
  }
});
