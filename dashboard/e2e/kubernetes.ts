// Requests to the cluster's API, past the training service and its limits for each user: for more jobs than a person creates.

import { readFileSync } from "node:fs";
import { Agent, request as httpsRequest } from "node:https";
import { parse } from "yaml";
import { cluster } from "./stage";

const atOnce = 16;
const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
const { clusters, users } = parse(readFileSync(cluster.kubeconfig, "utf8"));
const { server, "certificate-authority-data": authority } = clusters[0].cluster;
const ca = Buffer.from(authority, "base64");

function post(path: string, body: unknown): Promise<void> {
  const headers = { authorization: `Bearer ${users[0].user.token}`, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const request = httpsRequest(server + path, { method: "POST", ca, agent, headers }, (response) => {
      response.resume();
      response.on("end", () => {
        if ((response.statusCode ?? 500) < 300) resolve();
        else reject(new Error(`${path}: ${response.statusCode}`));
      });
    });
    request.on("error", reject);
    request.setTimeout(20_000, () => request.destroy(new Error(`${path}: no answer`)));
    request.end(JSON.stringify(body));
  });
}

export function createNamespaceDirectly(name: string): Promise<void> {
  return post("/api/v1/namespaces", { metadata: { name } });
}

/** Creates suspended MPIJobs, named `job-00000` and so on. */
export async function createJobsDirectly(namespace: string, count: number): Promise<void> {
  let next = 0;
  const create = async () => {
    while (next < count) {
      const name = `job-${String(next++).padStart(5, "0")}`;
      await post(`/apis/kubeflow.org/v2beta1/namespaces/${namespace}/mpijobs`, suspendedJob(name));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, create));
}

function suspendedJob(name: string): unknown {
  const container = { name: "main", image: "train:1", command: ["mpirun", "python", "train.py"] };
  const template = { spec: { containers: [container] } };
  return {
    apiVersion: "kubeflow.org/v2beta1",
    kind: "MPIJob",
    metadata: { name },
    spec: {
      runPolicy: { suspend: true },
      mpiReplicaSpecs: { Launcher: { replicas: 1, template }, Worker: { replicas: 8, template } },
    },
  };
}
