// The dashboard as a federated remote, in a host with ODH Dashboard's loader: its navigation leads to real jobs.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { image } from "./cluster";
import { startHost } from "./host/start";
import { createMember, createNamespace, inspectThemes, odh, openBrowser, visit, waitForJob } from "./stage";

openBrowser();

const built = mkdtempSync(join(tmpdir(), "dashboard-host-"));
let host: Awaited<ReturnType<typeof startHost>>;

beforeAll(async () => {
  host = await startHost(built);
  const entry = await fetch(`${host.at}/_mf/odhTraining/remote/remoteEntry.js`);
  expect(entry.status, "the service has no remote: build the dashboard, then odh").toBe(200);
});
afterAll(async () => {
  await host?.stop();
  rmSync(built, { recursive: true, force: true });
});

/** Creates a job with the command line, and returns its namespace. */
async function createWithCommandLine(name: string): Promise<string> {
  const namespace = createNamespace("remote");
  const flags = ["--name", name, "--namespace", namespace, "--workers", "2", "--image", image];
  odh("training", "create", "mpijob", ...flags, "--command", "sleep 600");
  await waitForJob(namespace, name, "Running");
  return namespace;
}

async function openByNavigation(page: Page): Promise<void> {
  await page.getByRole("navigation", { name: "Host navigation" }).getByText("Distributed training").click();
  await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
}

/** How each element of the page looks, but for variables that nothing uses. */
function stylesOf(page: Page): Promise<string[]> {
  return page.evaluate(async () => {
    await Promise.all(document.getAnimations().map((one) => one.finished.catch(() => {})));
    return [...document.querySelectorAll("html, body, #root *")].map((element) => {
      const style = getComputedStyle(element);
      const own = [...style].filter((name) => !name.startsWith("--"));
      return `${element.tagName}: ${own.map((name) => `${name}=${style.getPropertyValue(name)}`).join(";")}`;
    });
  });
}

const pathOf = (page: Page) => new URL(page.url()).pathname;

describe("the remote", () => {
  test("is an entry of the host's navigation that leads to real jobs and their pages", async () => {
    const namespace = await createWithCommandLine("seen-in-host");
    await visit("/", { at: host.at, width: 1440 }, async (page) => {
      await page.getByRole("link", { name: "The host" }).click();
      const before = await stylesOf(page);
      await openByNavigation(page);
      expect(pathOf(page)).toBe("/develop-train/training/jobs");
      await page.getByRole("link", { name: "seen-in-host" }).waitFor();
      await page
        .getByRole("row", { name: /seen-in-host/ })
        .getByText("2/2 Running")
        .waitFor();
      await page.getByRole("button", { name: "Live" }).waitFor();
      await inspectThemes(page, "remote-jobs");

      await page.getByRole("link", { name: "seen-in-host" }).click();
      await page.getByRole("heading", { level: 1, name: "seen-in-host" }).waitFor();
      const job = `/develop-train/training/jobs/${namespace}/mpijob/seen-in-host`;
      expect(pathOf(page)).toBe(job);
      await page.getByRole("option", { name: /^Worker 1, Running/ }).waitFor();
      await inspectThemes(page, "remote-job");
      await page.getByRole("tab", { name: "Workers" }).click();
      await page.waitForURL(`${host.at}${job}/workers`);

      // One history: the browser's way back, and the host's own links, lead the pages too.
      await page.goBack();
      await page.getByRole("option", { name: /^Worker 1, Running/ }).waitFor();
      await openByNavigation(page);
      expect(pathOf(page)).toBe("/develop-train/training/jobs");

      // The remote's styles leave the host's pages as they were.
      await page.getByRole("link", { name: "The host" }).click();
      await page.getByRole("heading", { name: "Home of the host" }).waitFor();
      expect(await stylesOf(page)).toEqual(before);
    });
  });

  test("opens at the address of a job, and changes it as the person that the host names", async () => {
    const namespace = await createWithCommandLine("changed-in-host");
    const visitor = { at: host.at, token: createMember(namespace) };
    await visit(`/develop-train/training/jobs/${namespace}/mpijob/changed-in-host`, visitor, async (page) => {
      await page.getByRole("button", { name: "Actions", exact: true }).click();
      await page.getByRole("menuitem", { name: "Suspend" }).click();
      await page.getByRole("heading", { name: "Suspended", exact: true }).waitFor();
    });
  });

  test("fits a phone, and says that a session has ended", async () => {
    const namespace = await createWithCommandLine("phone-in-host");
    const job = `/develop-train/training/jobs/${namespace}/mpijob/phone-in-host`;
    for (const [path, name] of [
      [`/develop-train/training/jobs?namespace=${namespace}`, "jobs"],
      [job, "job"],
    ] as const) {
      await visit(path, { at: host.at, width: 390 }, async (page) => {
        await page.getByText("2/2 Running").first().waitFor();
        await inspectThemes(page, `remote-${name}-phone`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow).toBeLessThanOrEqual(0);
      });
    }
    await visit("/develop-train/training/jobs", { at: host.at, token: "expired" }, async (page) => {
      await page.getByRole("heading", { name: "You are signed out" }).waitFor();
      // The host signs people in, when its page is loaded.
      const address = await page.getByRole("link", { name: "Sign in" }).getAttribute("href");
      expect(address).toMatch(/^\/develop-train\/training\/jobs/);
      await inspectThemes(page, "remote-signed-out");
    });
  });

  test("has every page, in each theme of the host", async () => {
    for (const path of ["create", "create/job?type=mpijob", "templates", "notifications", "admin"]) {
      await visit(`/develop-train/training/${path}`, { at: host.at }, async (page) => {
        await page.getByRole("status", { name: "Loading" }).first().waitFor({ state: "detached" });
        await inspectThemes(page, `remote-${path.replace(/\W.*/, path.includes("/") ? "-form" : "")}`);
      });
    }
  });
});
