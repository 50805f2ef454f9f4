// A cluster as a careful administrator's: the operator has the flags of `deploy/`, and the DNS server remembers for 30 s that a
// name is unknown, as kubeadm sets it up. The service itself serves the dashboard. Its node has eight GPUs.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll } from "vitest";
import { type Cluster, image } from "./cluster";
import { createObject, type Visit } from "./stage";

const deploy = join(import.meta.dirname, "../../deploy");

export type Installed = {
  /** How the dashboard is visited by the bearer of a token. */
  visitor: (token: string) => Visit;
  kubectl: (...args: string[]) => string;
  odh: (...args: string[]) => string;
  create: (namespace: string, object: unknown) => void;
};

/** The flags of the installation, but for those that name the operator's own pod or a port of it. */
function flags(): string[] {
  const text = readFileSync(join(deploy, "base/deployment.yaml"), "utf8");
  const found = [...text.matchAll(/^ *- (--\S+)$/gm)].map(([, flag = ""]) => flag);
  return found.filter((flag) => !/^--(lock-namespace|monitoring-port|webhook-port)=/.test(flag));
}

/** Starts one for a file of tests, and ends it afterwards. */
export function installCluster(): Installed {
  const program = process.env.ODH ?? "odh";
  const home = mkdtempSync(join(tmpdir(), "dashboard-installed-"));
  const run = (file: string, ...args: string[]) =>
    execFileSync(file, args, { encoding: "utf8", env: { ...process.env, ODH_HOME: home } });
  let status: { service: Cluster["service"]; kubeconfig: string };
  let operator: ChildProcess;
  const kubectl = (...args: string[]) =>
    run(process.env.KUBECTL ?? "kubectl", "--kubeconfig", status.kubeconfig, ...args);
  beforeAll(() => {
    const environment = process.env.ODH_EXAMPLES_ENVIRONMENT;
    const images = environment ? ["--image", `${image}=${environment}`] : [];
    run(program, "local", "up", "--no-operator", "--dns-negative-ttl", "30s", "--gpus", "8", ...images);
    status = JSON.parse(run(program, "local", "status", "-o", "json"));
    kubectl("apply", "--server-side", "-f", join(deploy, "crd/kubeflow.org_mpijobs.yaml"));
    kubectl("apply", "-f", join(deploy, "base/user-roles.yaml"));
    const words = ["--lock-namespace=default", "--health-address=127.0.0.1:0", ...flags()];
    const env = { ...process.env, KUBECONFIG: status.kubeconfig };
    operator = spawn(join(dirname(program), "mpi-operator"), words, { env, stdio: "ignore" });
  });
  afterAll(() => {
    operator?.kill();
    run(program, "local", "down", "--purge");
    rmSync(home, { recursive: true, force: true });
  });
  return {
    visitor: (token) => ({ at: status.service.url, token, options: { ignoreHTTPSErrors: true } }),
    kubectl,
    odh: (...args) => run(program, ...args, "--kubeconfig", status.kubeconfig),
    create: (namespace, object) => createObject(namespace, object, status.kubeconfig),
  };
}
