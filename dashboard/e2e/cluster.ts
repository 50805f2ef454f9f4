// Starts what the tests run against: a cluster with its training service, and a server for the built dashboard that sends the
// same content security policy as the service. Everything is ended afterwards.
//
// DASHBOARD_DIST names another folder of built files than `dist`. ODH names the program (`odh` if not set), ODH_EXAMPLES_ENVIRONMENT the environment of the examples' image.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { preview } from "vite";
import type { TestProject } from "vitest/node";

export const image = "quay.io/opendatahub/mpi-examples:openmpi";

export type Cluster = {
  /** The address of the dashboard. */
  dashboard: string;
  service: { url: string; token: string; certificateAuthority: string };
  kubeconfig: string;
};

declare module "vitest" {
  interface ProvidedContext {
    cluster: Cluster;
  }
}

export default async function setup(project: TestProject) {
  const home = mkdtempSync(join(tmpdir(), "dashboard-e2e-"));
  const odh = (...args: string[]) =>
    execFileSync(process.env.ODH ?? "odh", ["local", ...args], {
      encoding: "utf8",
      env: { ...process.env, ODH_HOME: home },
    });
  const environment = process.env.ODH_EXAMPLES_ENVIRONMENT;
  odh("up", ...(environment ? ["--image", `${image}=${environment}`] : []));
  const { service, kubeconfig } = JSON.parse(odh("status", "-o", "json"));
  process.env.TRAINING_SERVICE = service.url;
  process.env.TRAINING_TOKEN = service.token;
  process.env.TRAINING_CA = service.certificateAuthority;
  const server = await preview({
    root: join(import.meta.dirname, ".."),
    build: { outDir: process.env.DASHBOARD_DIST ?? "dist" },
    preview: { port: 0 },
    logLevel: "warn",
  });
  const [dashboard = ""] = server.resolvedUrls?.local ?? [];
  project.provide("cluster", { dashboard: dashboard.replace(/\/$/, ""), service, kubeconfig });
  return async () => {
    await server.close();
    odh("down", "--purge");
    rmSync(home, { recursive: true, force: true });
  };
}
