// A router before the service whose answers to requests are its own, as when no pod of the service is ready.

import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { cluster } from "./stage";

export type Answer = { status: number; type: string; body: string };

/** Starts it for a test, and returns its address. It passes on what is not a request to the service's API. */
export async function startRouter({ status, type, body }: Answer): Promise<string> {
  const server = createServer((request, response) => {
    const path = request.url ?? "/";
    if (path.startsWith("/api/")) response.writeHead(status, { "content-type": type }).end(body);
    else pass(path, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  );
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function pass(path: string, response: ServerResponse): Promise<void> {
  const answer = await fetch(cluster.dashboard + path, { headers: { accept: "text/html" } });
  response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" });
  response.end(Buffer.from(await answer.arrayBuffer()));
}
