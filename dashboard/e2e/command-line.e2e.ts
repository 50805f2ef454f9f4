// From the command line to the page and back, with a data scientist's rights: what a page copies or saves makes the same
// job again in a terminal.

import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import {
  addClaim,
  claim,
  createEditor,
  createKubeconfig,
  createNamespace,
  createObject,
  kubectl,
  openBrowser,
  visit,
} from "./stage";

openBrowser();

const command = `sh -c 'echo "rank $OMPI_COMM_WORLD_RANK writes this line"'`;

/** A data scientist with a namespace, a claim and a terminal, in which `odh` is on the path. */
function createPerson() {
  const namespace = createNamespace("terminal");
  createObject(namespace, claim("data"));
  const token = createEditor(namespace);
  const kubeconfig = createKubeconfig(token, namespace);
  const path = [process.env.ODH && dirname(process.env.ODH), process.env.PATH].filter(Boolean).join(delimiter);
  const env = { ...process.env, PATH: path, KUBECONFIG: kubeconfig };
  const terminal = (line: string) => execFileSync("sh", ["-ec", line], { encoding: "utf8", env });
  return { namespace, token, terminal, folder: dirname(kubeconfig) };
}

function specOf(namespace: string, name: string): unknown {
  return JSON.parse(kubectl("-n", namespace, "get", "mpijobs.kubeflow.org", name, "-o", "json")).spec;
}

const clipboard = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

/** Copies the job's command from its page. */
async function copyCommand(page: Page, name: string): Promise<string> {
  await page.getByRole("tab", { name: "Configuration" }).click();
  await page.getByRole("button", { name: "Command line" }).click();
  await page.getByRole("region", { name: /Command line/ }).waitFor();
  await page.locator("#copy-configuration").click();
  await expect.poll(() => clipboard(page)).toContain(`odh training create mpijob ${name} `);
  return clipboard(page);
}

async function succeeded(page: Page): Promise<void> {
  await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 60_000 });
}

describe("a job", () => {
  test("of the command line is followed on the page, and made again by what the page exports", async () => {
    const { namespace, token, terminal, folder } = createPerson();
    await visit(`/jobs?namespace=${namespace}`, { token }, async (page) => {
      await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
      terminal(`odh training create typed --workers 2 --image ${image} --pvc data:/data --env EPOCHS=3 -- ${command}`);
      await page.getByRole("link", { name: "typed", exact: true }).click();
      await succeeded(page);
      await page.getByRole("tab", { name: "Logs" }).click();
      const log = page.getByRole("region", { name: "Log", exact: true });
      await log.getByText("rank 1 writes this line").waitFor();

      const line = await copyCommand(page, "typed");
      terminal(line.replace("mpijob typed ", "mpijob by-command "));
      await page.getByRole("button", { name: "Python SDK" }).click();
      await page.getByText("from openshift_ai.training import").waitFor();
      await page.getByRole("button", { name: "YAML", exact: true }).click();
      await page.getByRole("region", { name: /YAML/ }).waitFor();
      const saving = page.waitForEvent("download");
      await page.getByRole("button", { name: "Download", exact: true }).click();
      const saved = readFileSync(await (await saving).path(), "utf8");
      writeFileSync(join(folder, "job.yaml"), saved.replace(/^ {2}name: typed$/m, "  name: by-file"));
      terminal(`odh training create -f ${join(folder, "job.yaml")}`);

      await page.getByRole("link", { name: namespace, exact: true }).click();
      for (const name of ["by-command", "by-file"]) {
        const row = page.getByRole("row", { name: new RegExp(`^Select ${name}`) });
        await row.getByText("Succeeded").waitFor({ timeout: 60_000 });
        expect(specOf(namespace, name)).toEqual(specOf(namespace, "typed"));
      }
    });
  });

  test("of the form is made by what the form and its page copy, and read by the command line", async () => {
    const { namespace, token, terminal } = createPerson();
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, { token }, async (page) => {
      await page.locator("#field-name").fill("from-form");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill(command);
      await addClaim(page, "data", "/data");
      await page.getByRole("button", { name: "Copy as" }).click();
      await page.getByRole("menuitem", { name: /^Command/ }).click();
      await expect.poll(() => clipboard(page)).toMatch(/<<'EOF'[\s\S]*name: from-form$/m);
      terminal(await clipboard(page));
      const copied = specOf(namespace, "from-form");

      await page.locator("#field-name").fill("from-page");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(/\/mpijob\/from-page/);
      expect(specOf(namespace, "from-page")).toEqual(copied);
      await succeeded(page);
      const line = await copyCommand(page, "from-page");
      terminal(line.replace("mpijob from-page ", "mpijob by-command "));
      expect(specOf(namespace, "by-command")).toEqual(copied);
    });
    expect(terminal("odh training list -o name").split("\n")).toContain("mpijob/from-page");
    expect(terminal("odh training logs mpijob from-page")).toContain("rank 1 writes this line");
  });
});
