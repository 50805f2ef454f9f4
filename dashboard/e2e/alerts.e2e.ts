// An administrator learns from the page alone which team is at its quota and which job runs for long.

import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import { createEditor, createNamespace, inspect, kubectl, openBrowser, themes, visit } from "./stage";

openBrowser();

/** Opens the form of a rule, gives it a name and a webhook. */
async function beginRule(page: Page, name: string) {
  await page.getByRole("button", { name: "Create rule" }).click();
  await page.locator("#rule-name").fill(name);
  await page.locator("#rule-address").fill("https://example.com/hook");
}

async function saveRule(page: Page) {
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Keep this key" }).waitFor();
  await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).last().click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
}

describe("an administrator", () => {
  test("finds the team at 90 % and the job that runs for long", async () => {
    const namespace = createNamespace("team");
    const job = `${namespace}/epochs`;
    kubectl("-n", namespace, "create", "quota", "compute", "--hard=pods=10");
    const token = createEditor(namespace);
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, { token }, async (page) => {
      await page.locator("#field-name").fill("epochs");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill("sleep 600");
      // With the Launcher, nine pods.
      await page.locator("#field-workers").fill("8");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(/mpijob\/epochs/);
      await page.getByRole("status").getByText("Running").waitFor({ timeout: 60_000 });
    });

    await visit(`/notifications?namespace=${namespace}`, {}, async (page) => {
      await beginRule(page, "full");
      expect(await page.getByRole("radio", { name: "E-mail" }).count()).toBe(0);
      await page.getByRole("radio", { name: "When a quota is nearly used" }).check();
      await inspect(page, "notifications-quota");
      await saveRule(page);
      await page.getByText("A quota: used to 90 %").waitFor();
      await beginRule(page, "long");
      await page.getByRole("radio", { name: "When a job runs for long" }).check();
      await page.locator("#rule-time").fill("soon");
      await page.getByRole("button", { name: "Save" }).click();
      await page
        .getByText(/is not a time/)
        .first()
        .waitFor();
      await page.locator("#rule-time").fill("10s");
      await saveRule(page);
      await page.getByText("All jobs: running for longer than 10s").waitFor();
    });

    for (const theme of themes) {
      await visit("/admin?namespace=", { theme }, async (page) => {
        await page.getByText(`Quota ${namespace}/compute`).waitFor({ timeout: 60_000 });
        await page.getByText("pods: 9 of 10 used (90%)").waitFor();
        await page.getByRole("link", { name: job }).waitFor({ timeout: 60_000 });
        await inspect(page, `admin-alerts-${theme}`);
      });
    }
    await visit("/admin?namespace=", {}, async (page) => {
      await page.getByRole("link", { name: job }).click();
      await page.getByRole("heading", { level: 1, name: "epochs" }).waitFor();
    });

    // Without a rule, the figures lead to the team, and to what runs longest there.
    await visit("/admin?namespace=", {}, async (page) => {
      const figures = page.getByRole("list", { name: "Summary" });
      await figures.getByRole("link", { name: namespace }).click();
      const longest = figures.getByRole("link", { name: /longest/i });
      await expect.poll(() => longest.getAttribute("href")).toContain(namespace);
      await longest.click();
      await page.waitForURL(/sort=-duration/);
      await page.getByRole("columnheader", { name: "Duration" }).waitFor();
      await page.getByText("1 job", { exact: true }).waitFor();
      await page.getByRole("grid").getByRole("link", { name: "epochs" }).waitFor();
    });

    // Its member sees them above the jobs, and may put them away; another team's person sees nothing of them.
    await visit(`/jobs?namespace=${namespace}`, { token }, async (page) => {
      await page.getByText("pods: 9 of 10 used (90%)").waitFor();
      await page.getByRole("button", { name: "Dismiss the alerts" }).click();
      await page.getByText("pods: 9 of 10 used (90%)").waitFor({ state: "detached" });
      await page.reload();
      await page.getByRole("grid").getByRole("link", { name: "epochs" }).waitFor();
      expect(await page.getByText("pods: 9 of 10 used (90%)").count()).toBe(0);
    });
    const other = createEditor(createNamespace("other"));
    await visit("/jobs?namespace=", { token: other }, async (page) => {
      await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
      expect(await page.getByText(namespace).count()).toBe(0);
    });
  });
});
