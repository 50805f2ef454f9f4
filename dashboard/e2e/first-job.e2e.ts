// What a data scientist does first, by the form's own defaults, with the rights of an editor of one namespace that enforces
// the strictest standard, on a cluster whose operator has the flags of its installation.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import { installCluster } from "./installed";
import { addClaim, claim, createEditor, openBrowser, visit } from "./stage";

openBrowser();
const { visitor, kubectl, odh, create } = installCluster();

/** Each rank says what it read, and goes on when the file is there. The first one then writes the model. */
const trains = [
  "import os, time",
  "r = int(os.environ['OMPI_COMM_WORLD_RANK'])",
  "print('shard %d of the data set is read' % r, flush=True)",
  "list(iter(lambda: time.sleep(0.1) or os.path.exists('/results/go'), True))",
  "r or open('/results/model.bin', 'wb').write(bytes(range(256)) * 1000)",
].join("; ");

/** One rank needs more than 128 MiB, and less than 256. */
const hungry =
  "import os,time; r=int(os.environ['OMPI_COMM_WORLD_RANK']); b=bytearray((90<<20)*r); time.sleep(2); print('done', r)";

/** Returns the token of an editor of a new namespace. */
function createTeam(namespace: string): string {
  kubectl("create", "namespace", namespace);
  kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted");
  return createEditor(namespace, kubectl);
}

type Pods = { items: { status: { phase: string } }[] };
const livePods = (namespace: string) => {
  const { items }: Pods = JSON.parse(kubectl("-n", namespace, "get", "pods", "-o", "json"));
  return items.filter(({ status }) => !["Succeeded", "Failed"].includes(status.phase)).length;
};

describe("a data scientist", () => {
  test("trains on eight GPUs, and downloads the model when the pods are gone", { timeout: 240_000 }, async () => {
    const namespace = "first";
    const token = createTeam(namespace);
    create(namespace, claim("results"));
    await visit("/signin?next=%2Fjobs", { ...visitor(token), token: undefined }, async (page) => {
      await page.getByLabel("Token of your Kubernetes account").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
      await page.getByRole("main").getByRole("link", { name: "Create Job" }).first().click();
      await page.getByRole("link", { name: "Choose MPIJob" }).click();

      await page.locator("#field-namespace").fill(namespace);
      await page.locator("#field-name").fill("digits");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill(`python3 -c "${trains}"`);
      await page.locator("#field-workers").fill("4");
      await page.locator("#field-gpus").fill("2");
      await addClaim(page, "results", "/results");
      await page
        .locator("#field-gpus-about")
        .getByText(/^Free now: 8 of 8 /)
        .waitFor();
      await page.getByText("Fits within the quota").waitFor();
      await page.locator('option[value="results"]').first().waitFor({ state: "attached" });
      await page.getByRole("button", { name: "Save as Template" }).click();
      await page.locator("#template-name").fill("digits");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Saved the template digits, version 1" }).waitFor();
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(/\/jobs\/first\/mpijob\/digits/);

      const state = page.getByRole("status");
      await state.getByText("Running").waitFor({ timeout: 60_000 });
      const running = page.getByRole("option", { name: /^Worker \d, Running/ });
      await expect.poll(() => running.count()).toBe(4);
      await page.getByText("4/4 Running").first().waitFor();
      await running.nth(2).click();
      await page.getByRole("heading", { name: "digits-worker-2" }).waitFor();
      await page.getByRole("link", { name: "View full logs" }).click();
      const log = page.getByRole("region", { name: "Log", exact: true });
      for (const rank of [4, 5]) await log.getByText(`shard ${rank} of the data set is read`).waitFor();
      expect(await log.getByText("shard 0 of the data set").count()).toBe(0);

      kubectl("-n", namespace, "exec", "digits-worker-0", "--", "touch", "/results/go");
      await state.getByText("Succeeded").waitFor({ timeout: 60_000 });
      await expect.poll(() => livePods(namespace), { timeout: 30_000 }).toBe(0);
      await page.getByRole("tab", { name: "Artifacts" }).click();
      await page.getByRole("button", { name: "Show the files" }).click();
      await page.getByRole("link", { name: "/results" }).click();
      const saving = page.waitForEvent("download");
      await page.getByRole("button", { name: "Download model.bin" }).click();
      const model = readFileSync(await (await saving).path());
      expect([model.length, model[255], model[256]]).toEqual([256_000, 255, 0]);
    });
    // The next job finds the GPUs free, in a browser that knows nothing of the person.
    await visit("/create/job?type=mpijob", visitor(token), async (page) => {
      await expect.poll(() => page.locator("#field-namespace").inputValue()).toBe(namespace);
      await page
        .locator("#field-gpus-about")
        .getByText(/^Free now: 8 of 8 /)
        .waitFor({ timeout: 40_000 });
    });
  });

  test("reads why a job lacks memory, and compares it with a copy that has more and holds nothing", async () => {
    const namespace = "lack";
    const token = createTeam(namespace);
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
      await card.getByRole("link", { name: "Worker 2" }).waitFor();
      await card.getByRole("link", { name: "View full logs" }).click();
      await page.locator(".log-evidence").getByText("killed by the kernel").first().waitFor();
      await page.goBack();
      await card.getByRole("button", { name: /^Run again with .* of memory per Worker$/ }).click();
      await page.waitForURL(/train-clone-1$/);
      await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 40_000 });
      await expect.poll(() => livePods(namespace), { timeout: 30_000 }).toBe(0);
      await page.getByRole("tab", { name: "Logs" }).click();
      await page.getByText("done 2").first().waitFor();
      await page.getByRole("tab", { name: "Overview" }).click();
      await page.getByRole("link", { name: "Compare all" }).click();
      const states = page.getByRole("grid", { name: "Outcome" }).getByRole("row", { name: /^State/ });
      await expect.poll(() => states.getByRole("gridcell").allTextContents()).toEqual(["Failed", "Succeeded"]);
    });
    expect(odh("training", "logs", "mpijob", "train-clone-1", "-n", namespace, "--rank", "2")).toContain("done 2");
  });
});
