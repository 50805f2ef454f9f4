// The training service is killed and started again while pages are open, in a cluster of its own: the other tests go on.

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Cluster, image } from "./cluster";
import { ask, openBrowser, tokenOf, type Visit, visit } from "./stage";

openBrowser();

const home = mkdtempSync(join(tmpdir(), "dashboard-restart-"));
const environment = process.env.ODH_EXAMPLES_ENVIRONMENT;
type Status = { pid: number; service: Cluster["service"] };

function odh(...args: string[]): string {
  const env = { ...process.env, ODH_HOME: home };
  return execFileSync(process.env.ODH ?? "odh", ["local", ...args], { encoding: "utf8", env });
}

function start(): Status {
  odh("up", ...(environment ? ["--image", `${image}=${environment}`] : []));
  return JSON.parse(odh("status", "-o", "json"));
}

let status: Status;
beforeAll(() => {
  status = start();
});
afterAll(() => {
  odh("down", "--purge");
  rmSync(home, { recursive: true, force: true });
});

/** As a proxy passes a person's requests on: with the token, which outlives the service. */
function atService(): Visit {
  return { at: status.service.url, token: tokenOf(status.service), options: { ignoreHTTPSErrors: true } };
}

function create(name: string): Promise<unknown> {
  const spec = { name, workers: 1, image, command: ["true"], suspend: true };
  return ask("POST", "/api/v1/namespaces/default/jobs", { spec }, undefined, status.service);
}

const live = (page: Page) => page.getByRole("button", { name: "Live", exact: true });
const cut = (page: Page) => page.getByRole("button", { name: /^Not updated since \d\d:\d\d:\d\d$/ });
const rowOf = (name: string) => `tr:has(bdi:text-is("${name}"))`;
const patience = { timeout: 60_000 };

test("a service that is killed and started again is missed by open pages, which go on by themselves", async () => {
  await create("stays");
  await visit("/jobs?namespace=default", atService(), (list) =>
    visit("/jobs/default/mpijob/stays", atService(), (job) =>
      visit("/create/job?type=mpijob&namespace=default", atService(), async (form) => {
        await list.locator(rowOf("stays")).waitFor();
        await live(list).waitFor();
        await job.getByRole("heading", { name: "Suspended", exact: true }).waitFor();
        await live(job).waitFor();
        await form.locator("#field-name").fill("patient");
        await form.locator("#field-image").fill(image);
        await form.locator("#field-command").fill("true");
        await form.getByText("Fits within the quota").waitFor();

        process.kill(status.pid, "SIGKILL");
        await form.locator("#field-workers").fill("1");
        await form.getByRole("button", { name: "Create Job" }).click();
        await form.getByRole("heading", { name: "The job was not created" }).waitFor();
        await cut(list).waitFor();
        await list.getByRole("heading", { name: "The list could not be loaded again" }).waitFor();
        await list.locator(rowOf("stays")).waitFor();
        await cut(job).waitFor();
        await job.getByRole("heading", { level: 1, name: "stays" }).waitFor();

        status = start();
        await live(list).waitFor(patience);
        await list.getByRole("heading", { name: "The list could not be loaded again" }).waitFor({ state: "detached" });
        await create("later");
        await list.locator(rowOf("later")).waitFor();
        await live(job).waitFor(patience);
        await ask("POST", "/api/v1/namespaces/default/jobs/mpijob/stays/resume", {}, undefined, status.service);
        await job.getByRole("heading", { name: "Suspended", exact: true }).waitFor({ state: "detached" });

        const typed = ["name", "image", "command", "workers"].map((field) => form.locator(`#field-${field}`));
        const values = await Promise.all(typed.map((field) => field.inputValue()));
        expect(values).toEqual(["patient", image, "true", "1"]);
        await form.getByText("Fits within the quota").waitFor();
        await form.getByRole("button", { name: "Create Job" }).click();
        await form.waitForURL("**/jobs/default/mpijob/patient**");
      }),
    ),
  );
});

// Those of the frame, in its order. The first is the page that was open; of the others, no code was fetched yet.
const entries = ["Jobs", "Create job", "Templates", "Notifications", "Administrator"];
// A notice has its severity before its title.
const away = /(The page could not be loaded|The list could not be loaded again|The training service does not answer)$/;

test("while the service is away, each entry of the navigation says so within the frame, and the page comes by itself", async () => {
  await visit("/jobs?namespace=default", atService(), async (page) => {
    await live(page).waitFor(patience);
    process.kill(status.pid, "SIGKILL");
    const navigation = page.getByRole("navigation", { name: "Navigation" });
    for (const entry of [...entries, ...entries]) {
      await navigation.getByRole("link", { name: entry, exact: true }).click();
      await page.getByRole("heading", { name: away }).first().waitFor();
    }
    await page.getByRole("button", { name: "Reload the page" }).waitFor();

    status = start();
    await page.getByRole("heading", { level: 1, name: "Administrator" }).waitFor(patience);
    for (const entry of [...entries.slice(1), "Jobs"]) {
      await navigation.getByRole("link", { name: entry, exact: true }).click();
      await page.getByRole("heading", { level: 1, name: entry, exact: true }).waitFor(patience);
      expect(await page.getByRole("heading", { name: away }).count()).toBe(0);
    }
    await live(page).waitFor(patience);
  });
});

test("a person stays signed in over a restart of the service, and a session that was ended stays so", async () => {
  await create("kept");
  const browser: Visit = { at: status.service.url, options: { ignoreHTTPSErrors: true } };
  const oneTime = async () => {
    const body = { next: "/jobs?namespace=default" };
    return (await ask<{ path: string }>("POST", "/api/v1/signin", body, undefined, status.service)).path;
  };
  const [staying, leaving, unused] = [await oneTime(), await oneTime(), await oneTime()];
  await visit(staying, browser, (page) =>
    visit(leaving, browser, async (other) => {
      for (const each of [page, other]) {
        await each.getByRole("button", { name: /^Sign in as / }).click();
        await each.locator(rowOf("kept")).waitFor();
      }
      const cookies = await other.context().cookies();
      await other.getByRole("button", { name: /^User / }).click();
      await other.getByRole("menuitem", { name: "Sign out" }).click();
      await other.getByLabel("Token of your Kubernetes account").waitFor();
      await live(page).waitFor();

      process.kill(status.pid, "SIGKILL");
      await cut(page).waitFor();
      status = start();
      await live(page).waitFor(patience);
      // The page that was open may change something, too.
      await page.getByRole("button", { name: "Actions for kept" }).click();
      await page.getByRole("menuitem", { name: "Resume" }).click();
      await page.getByRole("heading", { name: "Resumed 1 job" }).waitFor();
      await page.reload();
      await page.locator(rowOf("kept")).waitFor();

      await other.context().addCookies(cookies);
      const response = await other.goto(`${status.service.url}/session`);
      expect(response?.status()).toBe(401);
      await other.goto(status.service.url + unused);
      await other.getByRole("button", { name: /^Sign in as / }).click();
      await other.locator(rowOf("kept")).waitFor();
    }),
  );
});
