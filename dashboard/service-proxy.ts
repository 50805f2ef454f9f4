// Connects the development and preview servers to a running training service, as the person that the token belongs to.
//
// The service of `odh local up` is found by itself. Others: TRAINING_SERVICE (address), TRAINING_TOKEN (file),
// TRAINING_CA (file).

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import type { ProxyOptions } from "vite";

type Service = { url: string; token?: string; certificateAuthority?: string };

export function serviceProxy(): Record<string, ProxyOptions> {
  const service = findService();
  if (!service) return {};
  const { url, token, certificateAuthority } = service;
  const authority = certificateAuthority ? readFileSync(certificateAuthority) : undefined;
  const options: ProxyOptions = {
    target: url,
    changeOrigin: true,
    // No connection is used twice: the service may close an idle one just as a request is sent.
    agent: new Agent({ ca: authority, keepAlive: false, maxSockets: 256 }),
    configure: (proxy) => {
      proxy.on("proxyReq", (request) => {
        // A test that is another person sends a token of its own.
        if (token && !request.hasHeader("authorization")) {
          request.setHeader("authorization", `Bearer ${readFileSync(token, "utf8").trim()}`);
        }
      });
      // A stream that the page has closed must end in the service too.
      proxy.on("proxyRes", (answer, _request, response) => response.on("close", () => answer.destroy()));
    },
  };
  return { "/api": options, "/docs": options };
}

function findService(): Service | undefined {
  const url = process.env.TRAINING_SERVICE;
  if (url) return { url, token: process.env.TRAINING_TOKEN, certificateAuthority: process.env.TRAINING_CA };
  try {
    const status = execFileSync(process.env.ODH ?? "odh", ["local", "status", "-o", "json"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return JSON.parse(status).service;
  } catch {
    return undefined;
  }
}
