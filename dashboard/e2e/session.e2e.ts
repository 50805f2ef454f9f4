// Sessions of a real browser, at the service itself: its one-time addresses, its cookie, and what other pages may not do.

import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { ask, cluster, createJob, createNamespace, inspectThemes, openBrowser, type Visit, visit } from "./stage";

openBrowser();

const { url } = cluster.service;
// Its certificate is of an authority of its own, which this browser does not know.
const atService: Visit = { at: url, options: { ignoreHTTPSErrors: true } };

/** A one-time address that leads to a page. */
async function oneTime(next: string): Promise<string> {
  const { path } = await ask<{ path: string }>("POST", "/api/v1/signin", { next });
  return path;
}

/** Signs in at a one-time address, which leads to a page. */
async function enter(page: Page, next: string): Promise<void> {
  await page.getByRole("button", { name: /^Sign in as / }).click();
  await page.waitForURL(`${url}${next}`);
}

function suspendPath(namespace: string): string {
  return `/api/v1/namespaces/${namespace}/jobs/mpijob/job/suspend`;
}

/** The status and reason of a change that a script of this page asks for, without the header against forged requests. */
function changeWithoutHeader(page: Page, path: string): Promise<{ status: number; reason: string }> {
  return page.evaluate(async (path) => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(path, { method: "POST", body: "{}", headers, signal: AbortSignal.timeout(20_000) });
    return { status: response.status, reason: (await response.json()).reason };
  }, path);
}

type Job = { row: { phaseReason?: string } };

async function isSuspended(namespace: string): Promise<boolean> {
  const { row } = await ask<Job>("GET", `/api/v1/namespaces/${namespace}/jobs/mpijob/job`);
  return row.phaseReason === "Suspended";
}

describe("a session", () => {
  test("begins at a one-time address, which works once", async () => {
    const address = await oneTime("/jobs?phase=Failed");
    await visit(address, atService, async (page) => {
      expect(await page.context().cookies()).toEqual([]);
      await enter(page, "/jobs?phase=Failed");
      const [cookie] = await page.context().cookies();
      expect(cookie).toMatchObject({ name: "__Host-odh-session", httpOnly: true, secure: true, sameSite: "Strict" });
      expect(await page.evaluate(() => document.cookie)).toBe("");
    });
    await visit(address, atService, async (page) => {
      await page.getByText("This address was used before, or has expired.").waitFor();
      await inspectThemes(page, "signin-used");
    });
  });

  test("begins with a token, and ends by signing out", async () => {
    const token = readFileSync(cluster.service.token, "utf8").trim();
    await visit("/signin?next=%2Fjobs", atService, async (page) => {
      await page.getByLabel("Token of your Kubernetes account").fill("nonsense");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("alert").waitFor();
      await inspectThemes(page, "signin-refused");
      await page.setViewportSize({ width: 320, height: 900 });
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect(overflow).toBeLessThanOrEqual(0);
      await page.setViewportSize({ width: 1280, height: 900 });
      await page.getByLabel("Token of your Kubernetes account").fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByRole("heading", { level: 1, name: "Jobs" }).waitFor();
      // If the service cannot be reached, the page says that the session continues.
      await page.context().setOffline(true);
      await page.getByRole("button", { name: /^User / }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).click();
      await page.getByRole("heading", { name: "You are still signed in" }).waitFor();
      await page.context().setOffline(false);
      await page.getByRole("button", { name: "Close the notice: You are still signed in" }).click();
      await page.getByRole("button", { name: /^User / }).click();
      await page.getByRole("menuitem", { name: "Sign out" }).click();
      await page.getByLabel("Token of your Kubernetes account").waitFor();
      expect(await page.context().cookies()).toEqual([]);
      const response = await page.goto(`${url}/session`);
      expect(response?.status()).toBe(401);
    });
  });

  test("changes something only for a page of the service that has its header", async () => {
    const namespace = createNamespace("session");
    await createJob(namespace, { name: "job" });
    await visit(await oneTime(`/jobs/${namespace}/mpijob/job`), atService, async (page) => {
      await enter(page, `/jobs/${namespace}/mpijob/job`);
      const refused = await changeWithoutHeader(page, suspendPath(namespace));
      expect(refused).toEqual({ status: 403, reason: "CsrfToken" });
      // A form of another page, in the same browser: the cookie does not travel, or the origin is refused.
      const foreign = await page.context().newPage();
      await foreign.setContent(
        `<form method="post" action="${url}${suspendPath(namespace)}"><button>Go</button></form>`,
      );
      const [answer] = await Promise.all([
        foreign.waitForResponse((response) => response.url().endsWith("/suspend")),
        foreign.getByRole("button").click(),
      ]);
      expect([401, 403]).toContain(answer.status());
      // Chromium never closes a page that it is asked to close between the answer and the end of its load.
      await foreign.waitForLoadState("load");
      await foreign.close();
      expect(await isSuspended(namespace)).toBe(false);

      await page.getByRole("button", { name: "Actions", exact: true }).click();
      await page.getByRole("menuitem", { name: "Suspend" }).click();
      await page.getByRole("heading", { name: "Suspended", exact: true }).waitFor();
      expect(await isSuspended(namespace)).toBe(true);
    });
  });
});
