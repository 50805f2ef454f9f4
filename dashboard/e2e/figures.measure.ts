// Figures of the dashboard as the training service serves it, in a real browser. DASHBOARD_FIGURES names the file to write them
// to, DASHBOARD_JOBS and DASHBOARD_WORKERS the size of the largest list and job.

import { writeFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, describe, expect, onTestFinished, test } from "vitest";
import { createJobsDirectly, createNamespaceDirectly } from "./kubernetes";
import { ask, cluster, createJob, openBrowser, type Visit, visit, waitForJob } from "./stage";

openBrowser();

const jobs = Number(process.env.DASHBOARD_JOBS ?? 10_000);
const workers = Number(process.env.DASHBOARD_WORKERS ?? 100);
const loads = 5;
const changes = 10;
const linesPerSecond = 10_000;
const quietMs = 1_000;
const secondsOfLog = 60;

const figures: Record<string, number> = { jobs, workers, loads, changes, secondsOfLog };
afterAll(() => writeFileSync(process.env.DASHBOARD_FIGURES ?? "figures.json", JSON.stringify(figures)));

type Seen = { tasks: { end: number; duration: number }[]; rows: number };
const seenBy = (page: Page) => page.evaluate(() => (window as unknown as { seen: Seen }).seen);

/** Notes the tasks that block the page, and when it first shows rows. */
async function watch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const seen: Seen = { tasks: [], rows: 0 };
    Object.assign(window, { seen });
    new PerformanceObserver((list) => {
      for (const { startTime, duration } of list.getEntries()) seen.tasks.push({ end: startTime + duration, duration });
    }).observe({ type: "longtask", buffered: true });
    const rows = new MutationObserver(() => {
      if (!document.querySelector("a[data-row-link]")) return;
      rows.disconnect();
      requestAnimationFrame(() => {
        seen.rows = performance.now();
      });
    });
    rows.observe(document, { childList: true, subtree: true });
  });
}

/** A page of the service itself, signed in. Its certificate is of an authority of its own, so that the browser keeps no file. */
async function visitService(next: string, test: (page: Page) => Promise<void>): Promise<void> {
  const { path } = await ask<{ path: string }>("POST", "/api/v1/signin", { next });
  const at: Visit = { at: cluster.service.url, options: { ignoreHTTPSErrors: true }, prepare: watch };
  await visit(path, at, async (page) => {
    await page.getByRole("button", { name: /^Sign in as / }).click();
    await page.waitForURL((address) => address.pathname !== "/signin");
    await test(page);
  });
}

/** What blocked the page while something was done. */
async function blockedBy(page: Page, doing: () => Promise<void>): Promise<{ longest: number; over100Ms: number }> {
  const before = (await seenBy(page)).tasks.length;
  await doing();
  await page.waitForTimeout(quietMs);
  const durations = (await seenBy(page)).tasks.slice(before).map(({ duration }) => duration);
  return { longest: Math.max(0, ...durations), over100Ms: durations.filter((one) => one > 100).length };
}

function median(values: number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function timed(doing: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await doing();
  return performance.now() - start;
}

async function waitForTotal(namespace: string, total: number): Promise<void> {
  const path = `/api/v1/jobs?namespace=${namespace}&limit=1&total=true`;
  await expect
    .poll(async () => (await ask<{ total: number }>("GET", path)).total, { timeout: 120_000, interval: 500 })
    .toBe(total);
}

describe("figures", () => {
  test("of the first load, with 100 jobs", async () => {
    await createNamespaceDirectly("hundred");
    await createJobsDirectly("hundred", 100);
    await waitForTotal("hundred", 100);
    const [scripts, styles, shown, answering]: number[][] = [[], [], [], []];
    for (let load = 0; load < loads; load++) {
      await visitService("/jobs?namespace=hundred&limit=100", async (page) => {
        await expect.poll(() => page.locator("a[data-row-link]").count()).toBe(100);
        await page.waitForTimeout(quietMs);
        const { rows, tasks } = await seenBy(page);
        const { begin, bytes } = await page.evaluate(() => {
          const loaded = performance.getEntriesByType("resource") as PerformanceResourceTiming[];
          const bytes = (end: string) =>
            loaded
              .filter(({ name }) => new URL(name).pathname.endsWith(end))
              .reduce((sum, one) => sum + one.encodedBodySize, 0);
          const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
          return { begin: navigation?.fetchStart ?? 0, bytes: { scripts: bytes(".js"), styles: bytes(".css") } };
        });
        scripts?.push(bytes.scripts);
        styles?.push(bytes.styles);
        shown?.push(rows - begin);
        answering?.push(Math.max(rows, ...tasks.map(({ end }) => end)) - begin);
      });
    }
    figures.scriptKb = median(scripts ?? []) / 1024;
    figures.styleKb = median(styles ?? []) / 1024;
    figures.shownMs = median(shown ?? []);
    figures.answeringMs = median(answering ?? []);
  });

  test("of a change until a page shows it", async () => {
    await createNamespaceDirectly("changes");
    const times: number[] = [];
    await visitService("/jobs?namespace=changes", async (page) => {
      await page.getByRole("button", { name: "Live", exact: true }).waitFor();
      for (let at = 0; at < changes; at++) {
        const name = `change-${at}`;
        const appears = page.evaluate(
          (name) =>
            new Promise<number>((resolve) => {
              const watch = new MutationObserver(() => {
                const links = [...document.querySelectorAll("a[data-row-link]")];
                if (!links.some((link) => link.textContent === name)) return;
                watch.disconnect();
                resolve(Date.now());
              });
              watch.observe(document, { childList: true, subtree: true, characterData: true });
            }),
          name,
        );
        const sent = Date.now();
        await createJob("changes", { name, suspend: true });
        times.push((await appears) - sent);
      }
    });
    figures.changeMs = median(times);
    figures.slowestChangeMs = Math.max(...times);
  });

  test("of a list of very many jobs", async () => {
    await createNamespaceDirectly("many");
    await createJobsDirectly("many", jobs);
    await waitForTotal("many", jobs);
    await visitService("/jobs?namespace=many&limit=100&sort=name", async (page) => {
      await page
        .getByText(`${jobs.toLocaleString("en-US")} jobs`)
        .first()
        .waitFor();
      // The number of jobs is shown before the rows are.
      await expect.poll(async () => (await seenBy(page)).rows).toBeGreaterThan(0);
      const begin = await page.evaluate(() => {
        const [navigation] = performance.getEntriesByType("navigation") as PerformanceNavigationTiming[];
        return navigation?.fetchStart ?? 0;
      });
      figures.manyShownMs = (await seenBy(page)).rows - begin;
      await page.waitForTimeout(quietMs);
      const { longest, over100Ms } = await blockedBy(page, async () => {
        await page.locator("tbody").first().hover();
        for (let turn = 0; turn < 40; turn++) {
          await page.mouse.wheel(0, turn < 20 ? 400 : -400);
          await page.waitForTimeout(50);
        }
        const search = page.getByLabel("Search by name, owner, queue or cause");
        figures.filterMs = await timed(async () => {
          await search.fill("job-0000");
          await page.getByText("10 jobs", { exact: true }).waitFor();
        });
        await search.fill("");
        await page
          .getByText(`${jobs.toLocaleString("en-US")} jobs`)
          .first()
          .waitFor();
        await page.getByRole("button", { name: "Next page" }).click();
        await page.getByRole("link", { name: "job-00100" }).waitFor();
      });
      Object.assign(figures, { manyLongestTaskMs: longest, manyTasksOver100Ms: over100Ms });
    });
  });

  test("of the log of very many Workers", async () => {
    await createNamespaceDirectly("logs");
    const each = linesPerSecond / workers / 10;
    const program = `
import os, time
rank = os.environ["OMPI_COMM_WORLD_RANK"]
due = time.time()
for step in range(100_000):
    print("\\n".join(f"rank {rank} step {step} part {part} loss={1 / (step + 1):.6f}" for part in range(${each})), flush=True)
    due += 0.1
    time.sleep(max(0, due - time.time()))
`;
    const command = ["mpirun", "--tag-output", "python3", "-c", program];
    await createJob("logs", { name: "loud", workers, command, inLauncher: true });
    onTestFinished(() => ask("DELETE", "/api/v1/namespaces/logs/jobs/mpijob/loud?force=true").then(() => {}));
    await waitForJob("logs", "loud", "Running", 120_000);
    await visitService("/jobs/logs/mpijob/loud/logs", async (page) => {
      await page.getByRole("region", { name: "Log", exact: true }).getByText("loss=").first().waitFor();
      const browser = await page.context().newCDPSession(page);
      const heapMb = async () => {
        await browser.send("HeapProfiler.collectGarbage");
        return (await browser.send("Runtime.getHeapUsage")).usedSize / 2 ** 20;
      };
      // The lines that are kept, and those that were dropped.
      const lines = () =>
        page.locator(".log-foot").evaluate((foot) => {
          const numbers = foot.textContent?.replaceAll(",", "").match(/\d+(?= lines| older)/g) ?? [];
          return numbers.reduce((sum, one) => sum + Number(one), 0);
        });
      const read = (seconds: number) => blockedBy(page, () => page.waitForTimeout(seconds * 1000));
      const [linesBefore, begin] = [await lines(), performance.now()];
      const early = await read(secondsOfLog / 3);
      figures.heapEarlyMb = await heapMb();
      const late = await read((secondsOfLog * 2) / 3);
      figures.linesPerSecond = ((await lines()) - linesBefore) / ((performance.now() - begin) / 1000);
      figures.heapLateMb = await heapMb();
      figures.logLongestTaskMs = Math.max(early.longest, late.longest);
      figures.logTasksOver100Ms = early.over100Ms + late.over100Ms;
    });
  });
});
