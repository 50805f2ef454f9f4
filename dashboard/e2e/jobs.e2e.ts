import { loadavg } from "node:os";
import { describe, expect, test } from "vitest";
import {
  ask,
  createJob,
  createMember,
  createNamespace,
  inspect,
  inspectThemes,
  openBrowser,
  signedInBefore,
  tabTo,
  themes,
  visit,
  waitForJob,
} from "./stage";

openBrowser();

// A machine that runs other work beside the tests is slower; the figures are for one that does not.
const machineFactor = Math.max(1, loadavg()[0] ?? 1);

const rowOf = (name: string) => `tr:has(bdi:text-is("${name}"))`;

describe("the list of jobs", () => {
  test("shows states by colour, shape and word in every theme, and passes every rule of axe", async () => {
    const namespace = createNamespace("list");
    await createJob(namespace, { name: "trains", workers: 2 });
    await createJob(namespace, { name: "paused", suspend: true });
    await createJob(namespace, { name: "greedy", gpus: 64 });
    await createJob(namespace, { name: "done", command: ["true"] });
    await createJob(namespace, { name: "broken", command: ["false"], retries: 0 });
    await waitForJob(namespace, "done", "Succeeded");
    await waitForJob(namespace, "broken", "Failed");
    await waitForJob(namespace, "trains", "Running");
    for (const theme of themes) {
      await visit(`/jobs?namespace=${namespace}`, { theme }, async (page) => {
        await page.locator(rowOf("trains")).getByText("2/2 Running").waitFor();
        await page.locator(rowOf("paused")).getByText("Suspended").waitFor();
        await page.locator(rowOf("greedy")).getByText("Unschedulable").waitFor();
        await page.locator(rowOf("done")).getByText("Succeeded").waitFor();
        await page
          .locator(rowOf("broken"))
          .getByText(/^Failed \(/)
          .waitFor();
        await inspect(page, `jobs-${theme}`);
        await page.locator(rowOf("trains")).getByRole("checkbox").check();
        await page.getByRole("button", { name: "Actions", exact: true }).click();
        await inspect(page, `jobs-actions-${theme}`);
        await page.getByRole("menuitem", { name: "Delete" }).click();
        await page.getByRole("dialog").waitFor();
        await inspect(page, `jobs-delete-${theme}`);
      });
      await visit(`/jobs?namespace=${namespace}`, { theme, width: 390 }, async (page) => {
        await page.getByText("5 jobs").waitFor();
        await inspect(page, `jobs-phone-${theme}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow).toBeLessThanOrEqual(0);
      });
      await visit(`/jobs?namespace=${namespace}&q=nothing-has-this-name`, { theme }, async (page) => {
        await page.getByRole("heading", { name: "No job matches" }).waitFor();
        await inspect(page, `jobs-no-match-${theme}`);
      });
    }
  });

  test("keeps filters, order and columns in the address", async () => {
    const namespace = createNamespace("address");
    await createJob(namespace, { name: "one", suspend: true });
    await createJob(namespace, { name: "two", suspend: true });
    await createJob(namespace, { name: "three" });
    await visit(`/jobs?namespace=${namespace}`, {}, async (page) => {
      await page.getByText("3 jobs").waitFor();
      await page.getByRole("button", { name: "Status" }).click();
      await page.getByRole("menuitem", { name: "Suspended" }).click();
      await page.keyboard.press("Escape");
      await page.getByText("2 jobs").waitFor();
      await page.getByRole("button", { name: "Name", exact: true }).click();
      await page.waitForURL(/sort=name/);
      await page.reload();
      await page.getByText("2 jobs").waitFor();
      expect(await page.locator("a[data-row-link]").allTextContents()).toEqual(["one", "two"]);
      await page.getByLabel("Search by name, owner, queue or cause").fill("tw");
      await page.getByText("1 job", { exact: true }).waitFor();
      expect(page.url()).toContain("q=tw");
      await page.getByRole("button", { name: "Clear all filters" }).first().click();
      await page.getByText("3 jobs").waitFor();
    });
  });

  test("shows within a second what changes", async () => {
    const namespace = createNamespace("live");
    await visit(`/jobs?namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
      await page.getByRole("button", { name: "Live", exact: true }).waitFor();
      await inspectThemes(page, "jobs-empty");
      await createJob(namespace, { name: "appears", suspend: true });
      await page.locator(rowOf("appears")).waitFor({ timeout: 1500 });
      await ask("POST", `/api/v1/namespaces/${namespace}/jobs/mpijob/appears/resume`, {});
      await page.locator(rowOf("appears")).getByText("Suspended").waitFor({ state: "detached", timeout: 1500 });
      await ask("DELETE", `/api/v1/namespaces/${namespace}/jobs/mpijob/appears`);
      await page.locator(rowOf("appears")).waitFor({ state: "detached", timeout: 5000 });
    });
  });

  test("suspends ten selected jobs, by keyboard alone", async () => {
    const namespace = createNamespace("bulk");
    const names = Array.from({ length: 10 }, (_, index) => `job-${index}`);
    for (const name of names) await createJob(namespace, { name });
    await visit(`/jobs?namespace=${namespace}&sort=name`, {}, async (page) => {
      await page.getByText("10 jobs").waitFor();
      await page.locator("a[data-row-link]").first().focus();
      for (const name of names) {
        expect(await page.evaluate(() => document.activeElement?.textContent)).toBe(name);
        await page.keyboard.press("Space");
        await page.keyboard.press("ArrowDown");
      }
      await page.getByText("10 selected").waitFor();
      await page.getByRole("button", { name: "Actions", exact: true }).focus();
      await page.keyboard.press("Enter");
      const focused = () => page.evaluate(() => document.activeElement?.textContent);
      await expect.poll(focused).toBe("Suspend (10)");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Suspended 10 jobs" }).waitFor();
      await expect.poll(() => page.locator("tbody").getByText("Pending (Suspended)", { exact: true }).count()).toBe(10);
    });
  });

  test("asks again by itself where the connection is lost, and says so", async () => {
    const namespace = createNamespace("lost");
    await createJob(namespace, { name: "stays", suspend: true });
    await visit(`/jobs?namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("button", { name: "Live", exact: true }).waitFor();
      await page.context().setOffline(true);
      await page.getByRole("button", { name: /^Not updated since \d\d:\d\d:\d\d$/ }).waitFor();
      await page.getByRole("heading", { name: "The list could not be loaded again" }).waitFor();
      await page.locator(rowOf("stays")).waitFor();
      await inspectThemes(page, "jobs-disconnected");
      await page.context().setOffline(false);
      await page.getByRole("button", { name: "Live", exact: true }).waitFor();
      await page.getByRole("heading", { name: "The list could not be loaded again" }).waitFor({ state: "detached" });
    });
  });

  test("shows two teams their own jobs only, and an administrator both", async () => {
    const [one, two] = [createNamespace("team-one"), createNamespace("team-two")];
    const token = createMember(one);
    await createJob(one, { name: "of-team-one", suspend: true });
    await createJob(two, { name: "of-team-two", suspend: true });
    await visit("/jobs?namespace=", { token }, async (page) => {
      await page.locator(rowOf("of-team-one")).waitFor();
      expect(await page.locator(rowOf("of-team-two")).count()).toBe(0);
      await page.goto(page.url().replace("namespace=", `namespace=${two}`));
      await page.getByRole("heading", { name: "You have no permission for this" }).waitFor();
      await inspectThemes(page, "jobs-forbidden");
    });
    await visit("/jobs?namespace=&q=of-team", {}, async (page) => {
      await page.locator(rowOf("of-team-one")).waitFor();
      await page.locator(rowOf("of-team-two")).waitFor();
      // The same by keyboard alone: the namespace of a team, and its job.
      await tabTo(page, "Namespace:");
      await page.keyboard.press("Enter");
      await page.getByRole("option", { name: two }).waitFor();
      await page.keyboard.type(two);
      await page.keyboard.press("Enter");
      await page.locator(rowOf("of-team-one")).waitFor({ state: "detached" });
      await tabTo(page, /^of-team-two$/);
      await page.keyboard.press("Enter");
      await page.waitForURL(`**/jobs/${two}/mpijob/of-team-two`);
    });
  });

  test("says that a person is signed out, and where to sign in", async () => {
    await visit("/jobs?namespace=", { token: "expired" }, async (page) => {
      await page.getByRole("heading", { name: "Sign in to see training jobs" }).waitFor();
      await inspectThemes(page, "signed-out-first");
    });
    await visit("/jobs?namespace=", { token: "expired", prepare: signedInBefore }, async (page) => {
      await page.getByRole("heading", { name: "You are signed out" }).waitFor();
      const address = await page.getByRole("link", { name: "Sign in" }).getAttribute("href");
      expect(address).toBe("/signin?next=%2Fjobs%3Fnamespace%3D");
      await inspectThemes(page, "signed-out");
    });
  });

  test("has columns with values of what jobs print, and says what is unknown", async () => {
    const namespace = createNamespace("values");
    const lines = "for loss in 0.75 0.25 0.5; do echo loss=$loss; done";
    await createJob(namespace, { name: "prints", command: ["sh", "-c", lines] });
    await createJob(namespace, { name: "silent", suspend: true });
    await waitForJob(namespace, "prints", "Succeeded");
    await visit(`/jobs?namespace=${namespace}&sort=name`, {}, async (page) => {
      await page.getByText("2 jobs").waitFor();
      const columns = page.getByRole("button", { name: /^Columns/ });
      const choice = page.getByRole("menuitem", { name: "Loss (last)" });
      // What was printed at the very end is stored a moment later.
      await expect
        .poll(async () => {
          await page.reload();
          await columns.click();
          return choice.waitFor({ timeout: 3_000 }).then(
            () => true,
            () => false,
          );
        })
        .toBe(true);
      await choice.click();
      await page.getByRole("menuitem", { name: "Loss (lowest)" }).click();
      await page.keyboard.press("Escape");
      const cells = (name: string, title: string) => page.locator(`${rowOf(name)} td[data-label="${title}"]`);
      await expect.poll(() => cells("prints", "Loss (last)").textContent()).toBe("0.5");
      await expect.poll(() => cells("prints", "Loss (lowest)").textContent()).toBe("0.25");
      expect(await cells("silent", "Loss (last)").textContent()).toBe("–");
      await cells("silent", "Loss (last)")
        .getByTitle(/^Unknown/)
        .waitFor();
      expect(await page.getByRole("button", { name: "Loss (last)" }).count(), "nothing sorts by it").toBe(0);
      await inspectThemes(page, "jobs-metrics");
      await page.reload();
      await expect.poll(() => cells("prints", "Loss (last)").textContent()).toBe("0.5");
    });
  });

  test("comes back to the place in the list that was left", async () => {
    const namespace = createNamespace("place");
    const names = Array.from({ length: 40 }, (_, index) => `place-${index}`);
    for (let at = 0; at < names.length; at += 5) {
      await Promise.all(names.slice(at, at + 5).map((name) => createJob(namespace, { name, suspend: true })));
    }
    await visit(`/jobs?namespace=${namespace}&sort=name`, {}, async (page) => {
      await page.getByText("40 jobs").waitFor();
      const link = page.locator(rowOf("place-7")).locator("a[data-row-link]");
      // The pointer is where it clicks: nothing scrolls any more.
      await link.hover();
      const place = () => page.locator("main").evaluate((main) => main.scrollTop);
      const before = await place();
      expect(before).toBeGreaterThan(0);
      await link.click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/place-7`);
      await page.getByRole("heading", { name: "Suspended", exact: true }).waitFor();
      await page.goBack();
      await expect.poll(place).toBe(before);
    });
  });

  test("shows a hundred jobs within two seconds, and sorts and searches them without blocking the page", async () => {
    const namespace = createNamespace("many");
    const names = Array.from({ length: 100 }, (_, index) => `many-${index}`);
    for (let at = 0; at < names.length; at += 5) {
      await Promise.all(names.slice(at, at + 5).map((name) => createJob(namespace, { name, suspend: true })));
    }
    await visit(`/jobs?namespace=${namespace}&limit=100`, {}, async (page) => {
      await page.getByText("100 jobs").waitFor();
      const start = Date.now();
      await page.reload();
      await page.locator(rowOf("many-7")).waitFor();
      expect(Date.now() - start).toBeLessThan(2000 * machineFactor);
      await page.evaluate(() => {
        const seen: number[] = [];
        Object.assign(window, { longTasks: seen });
        new PerformanceObserver((list) => seen.push(...list.getEntries().map(({ duration }) => duration))).observe({
          type: "longtask",
        });
      });
      await page.getByRole("button", { name: "Name", exact: true }).click();
      await page.waitForURL(/sort=name/);
      await page.getByLabel("Search by name, owner, queue or cause").fill("many-9");
      await page.getByText("11 jobs").waitFor();
      const longest = await page.evaluate(() =>
        Math.max(0, ...(window as unknown as { longTasks: number[] }).longTasks),
      );
      expect(longest).toBeLessThan(100 * machineFactor);
    });
  });
});
