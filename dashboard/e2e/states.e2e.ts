// Every page while it loads, without anything to show, refused, and cut off from the service: in every theme.

import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { startRouter } from "./router";
import {
  createJob,
  createMember,
  createNamespace,
  inspectThemes,
  openBrowser,
  signedInBefore,
  visit,
  waitForJob,
} from "./stage";

openBrowser();

type View = {
  /** What its screenshots are called. */
  name: string;
  address: (namespace: string) => string;
  /** What it says where there is nothing yet. */
  empty?: string;
};

const views: View[] = [
  { name: "jobs", address: (namespace) => `/jobs?namespace=${namespace}`, empty: "No jobs yet" },
  { name: "job", address: (namespace) => `/jobs/${namespace}/mpijob/job` },
  {
    name: "create-copy",
    address: (namespace) => `/create/job?namespace=${namespace}&from=${namespace}/mpijob/job`,
  },
  {
    name: "compare",
    address: (namespace) => `/compare?namespace=${namespace}&kind=mpijob&name=job&name=other`,
  },
  {
    name: "templates",
    address: (namespace) => `/templates?namespace=${namespace}`,
    empty: "No templates yet",
  },
  {
    name: "notifications",
    address: (namespace) => `/notifications?namespace=${namespace}`,
    empty: "No rules yet",
  },
  { name: "admin-overview", address: (namespace) => `/admin?namespace=${namespace}` },
  {
    name: "admin-capacity",
    address: (namespace) => `/admin/capacity?namespace=${namespace}&workers=1&gpus=1`,
  },
  {
    name: "admin-usage",
    address: (namespace) => `/admin/usage?namespace=${namespace}`,
    empty: "No job used anything in this period",
  },
  {
    name: "admin-audit",
    address: (namespace) => `/admin/audit?namespace=${namespace}`,
    empty: "Nothing was recorded",
  },
];

const requests = "**/api/v1/**";
const fault = JSON.stringify({
  type: "about:blank",
  title: "Internal Server Error",
  status: 500,
  code: "Error",
  message: "the history could not be read",
  fields: [],
});

describe.each(views)("the page $name", ({ name, address, empty }) => {
  test("is shown while it loads, and without the service", async () => {
    const namespace = createNamespace("state");
    await createJob(namespace, { name: "job", suspend: true });
    // Requests stay without an answer, as on a slow network.
    const prepareSlow = async (page: Page) => {
      await page.route(requests, () => {});
    };
    await visit(address(namespace), { prepare: prepareSlow }, async (page) => {
      await page.locator(".pf-v6-c-skeleton").first().waitFor();
      await inspectThemes(page, `state-${name}-loading`);
    });
    const prepareCut = async (page: Page) => {
      await page.route(requests, (route) => route.abort("connectionrefused"));
    };
    await visit(address(namespace), { prepare: prepareCut }, async (page) => {
      await page.getByText("The training service does not answer").first().waitFor();
      await inspectThemes(page, `state-${name}-disconnected`);
    });
  });

  test("says that a stranger has no permission", async () => {
    const [own, other] = [createNamespace("own"), createNamespace("other")];
    await createJob(other, { name: "job", suspend: true });
    await visit(address(other), { token: createMember(own) }, async (page) => {
      await page.getByText("You have no permission for this").first().waitFor();
      await inspectThemes(page, `state-${name}-forbidden`);
    });
  });

  test.runIf(empty !== undefined)("says that there is nothing yet", async () => {
    await visit(address(createNamespace("empty")), {}, async (page) => {
      await page
        .getByText(empty ?? "")
        .first()
        .waitFor();
      await inspectThemes(page, `state-${name}-empty`);
    });
  });
});

test.each([
  {
    name: "the page of a router",
    answer: { status: 503, type: "text/html", body: "<h1>Application is not available</h1>" },
    title: "The training service does not answer",
  },
  {
    name: "a fault of the service",
    answer: { status: 500, type: "application/problem+json", body: fault },
    title: "The request failed",
  },
])("$name in place of an answer is said in every theme", async ({ name, answer, title }) => {
  const namespace = createNamespace("broken");
  const at = await startRouter(answer);
  for (const { name: view, address } of views) {
    await visit(address(namespace), { at }, async (page) => {
      await page.getByRole("heading", { name: title }).first().waitFor();
      expect(await page.getByText("Application is not available").count()).toBe(0);
      if (view === "jobs" || view === "job") await inspectThemes(page, `state-${view}-${name.replace(/\W+/g, "-")}`);
    });
  }
});

test("an address that is none, a job that is gone and an expired sign-in are said in every theme", async () => {
  const namespace = createNamespace("none");
  for (const [path, heading, name] of [
    ["/nothing-here", "There is no such page", "not-found"],
    [`/jobs/${namespace}/mpijob/never`, "This no longer exists", "job-gone"],
  ] as const) {
    await visit(path, {}, async (page) => {
      await page.getByRole("heading", { name: heading }).first().waitFor();
      await inspectThemes(page, `state-${name}`);
    });
  }
  await visit("/jobs?namespace=", { token: "expired", prepare: signedInBefore }, async (page) => {
    await page.getByRole("heading", { name: "You are signed out" }).waitFor();
    await inspectThemes(page, "state-signed-out");
  });
});

test("every page fits 320 px, also with all namespaces chosen", async () => {
  const namespace = createNamespace("narrow");
  for (const name of ["job", "other"]) await createJob(namespace, { name, suspend: true });
  await createJob(namespace, { name: "failed", command: ["false"], retries: 0 });
  await waitForJob(namespace, "failed", "Failed");
  const job = `/jobs/${namespace}/mpijob/job`;
  for (const path of [
    ...["", "/configuration", "/workers", "/logs", "/metrics", "/events", "/artifacts"].map((tab) => `${job}${tab}`),
    `/jobs/${namespace}/mpijob/failed`,
    `/compare?kind=mpijob&name=job&name=other&namespace=${namespace}`,
    "/create",
    "/jobs",
    "/admin",
    "/admin/capacity",
    "/admin/capacity?workers=2&gpus=0&cpu=100m&memory=64Mi",
    "/admin/usage",
    "/admin/usage?view=chart",
    "/admin/audit",
    "/templates",
    "/notifications",
    "/nothing-here",
  ]) {
    const hasNamespace = path.includes("namespace=");
    const address = hasNamespace ? path : `${path}${path.includes("?") ? "&" : "?"}namespace=`;
    await visit(address, { width: 320 }, async (page) => {
      // What is loaded may be wider than what stands for it.
      await expect.poll(() => page.locator("main .pf-v6-c-skeleton").count()).toBe(0);
      await expect.poll(() => page.locator("main").getAttribute("aria-busy")).not.toBe("true");
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      expect(overflow, path).toBeLessThanOrEqual(0);
    });
  }
});

test("the current place has a mark where the system chooses the colours", async () => {
  await visit("/jobs?namespace=", { options: { forcedColors: "active" } }, async (page) => {
    const line = (name: string) =>
      page
        .getByRole("navigation")
        .getByRole("link", { name, exact: true })
        .evaluate((link) => getComputedStyle(link).borderInlineStartWidth);
    expect([await line("Jobs"), await line("Templates")]).toEqual(["4px", "0px"]);
  });
});
