// What a data scientist does first, by the form's own defaults, with the rights of an editor of one namespace that enforces
// the strictest standard, on a cluster whose operator has the flags of its installation.

import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import { installCluster } from "./installed";
import { openBrowser, visit } from "./stage";

openBrowser();
const { visitor, kubectl, odh } = installCluster();

/** One rank needs more than 128 MiB, and less than 256. */
const hungry =
  "import os,time; r=int(os.environ['OMPI_COMM_WORLD_RANK']); b=bytearray((90<<20)*r); time.sleep(2); print('done', r)";

/** Returns the token of an editor of a new namespace. */
function createEditor(namespace: string): string {
  kubectl("create", "namespace", namespace);
  kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted");
  kubectl("-n", namespace, "create", "serviceaccount", "editor");
  for (const role of ["edit", "kubeflow-mpijobs-edit"])
    kubectl(
      "-n",
      namespace,
      "create",
      "rolebinding",
      role,
      `--clusterrole=${role}`,
      `--serviceaccount=${namespace}:editor`,
    );
  return kubectl("-n", namespace, "create", "token", "editor").trim();
}

type Pods = { items: { status: { phase: string } }[] };
const livePods = (namespace: string) => {
  const { items }: Pods = JSON.parse(kubectl("-n", namespace, "get", "pods", "-o", "json"));
  return items.filter(({ status }) => !["Succeeded", "Failed"].includes(status.phase)).length;
};

describe("the untouched form", () => {
  test("makes a job that runs, and whose log names the ranks", async () => {
    const namespace = "first";
    const token = createEditor(namespace);
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, visitor(token), async (page) => {
      await page.locator("#field-name").fill("first");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill("sh -c 'echo \"rank $OMPI_COMM_WORLD_RANK\"'");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(/\/jobs\/[^/]+\/mpijob\/first/);
      await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 60_000 });
      await page.getByRole("tab", { name: "Logs" }).click();
      await page.getByText("rank 1").first().waitFor();
    });
  });

  test("makes a job whose lack of memory is named, whose copy with more succeeds and holds nothing", async () => {
    const namespace = "lack";
    const token = createEditor(namespace);
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, visitor(token), async (page) => {
      await page.locator("#field-name").fill("train");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill(`python3 -c "${hungry}"`);
      await page.locator("#field-workers").fill("3");
      await page.locator("#field-memory").fill("128Mi");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(/mpijob\/train/);
      const card = page.getByRole("region", { name: "Failed: Out of memory" });
      await card.waitFor({ timeout: 30_000 });
      await card.getByRole("button", { name: /^Run again with .* of memory per Worker$/ }).click();
      await page.waitForURL(/train-clone-1$/);
      await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 40_000 });
      await expect.poll(() => livePods(namespace), { timeout: 30_000 }).toBe(0);
      await page.getByRole("tab", { name: "Logs" }).click();
      await page.getByText("done 2").first().waitFor();
    });
    expect(odh("training", "logs", "mpijob", "train-clone-1", "-n", namespace, "--rank", "2")).toContain("done 2");
  });
});
