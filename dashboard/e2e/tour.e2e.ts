import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { createJob, createNamespace, inspect, openBrowser, themes, visit } from "./stage";

openBrowser();

// The tour covers a part of the page, whose own rules other tests check.
const tour = (page: Page) => page.getByRole("dialog", { name: "Tour of the dashboard" });
const focused = (page: Page) => page.evaluate(() => document.activeElement?.textContent);
/** Waits until the page knows the person, which is when a tour would begin. */
async function settled(page: Page): Promise<void> {
  await page.getByRole("button", { name: /^User (?!Not signed in)/ }).waitFor();
  await page.getByRole("button", { name: "Live", exact: true }).waitFor();
}

const titles = [
  "All jobs in one list",
  "Create a job",
  "A page for each job",
  "Why a job waits or fails",
  "Where to find help",
];

describe("the tour", () => {
  test("begins at the first visit, is taken by keyboard, and does not come back by itself", async () => {
    await createJob(createNamespace("tour"), { name: "toured", suspend: true });
    await visit("/", { isFirst: true }, async (page) => {
      for (const title of titles) {
        await tour(page).getByRole("heading", { name: title }).waitFor();
        await expect.poll(() => focused(page)).toMatch(/^(Next|Done)$/);
        await page.keyboard.press("Enter");
      }
      await tour(page).waitFor({ state: "detached" });
      await expect.poll(() => focused(page)).toBe("Jobs");
      await page.reload();
      await page.locator("a[data-row-link]").first().waitFor();
      await settled(page);
      expect(await tour(page).count()).toBe(0);
    });
  });

  test("is skipped with Escape, and started again from the menu of every page", async () => {
    await visit("/jobs", { isFirst: true }, async (page) => {
      await tour(page).waitFor();
      await page.keyboard.press("Escape");
      await tour(page).waitFor({ state: "detached" });
      await page.goto(page.url().replace("/jobs", "/templates"));
      await page.getByRole("button", { name: /^User / }).click();
      await page.getByRole("menuitem", { name: "Take the tour" }).click();
      await page.waitForURL("**/jobs");
      await tour(page).getByRole("heading", { name: "All jobs in one list" }).waitFor();
      await tour(page).getByRole("button", { name: "Skip the tour" }).click();
      await tour(page).waitFor({ state: "detached" });
      await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("user-menu");
    });
  });

  test("does not come with a link to a filtered list, and leaves the page usable", async () => {
    const namespace = createNamespace("linked");
    await visit(`/jobs?namespace=${namespace}`, { isFirst: true }, async (page) => {
      await page.getByRole("heading", { name: "No jobs yet" }).waitFor();
      await settled(page);
      expect(await tour(page).count()).toBe(0);
    });
    await visit("/jobs", { isFirst: true }, async (page) => {
      await tour(page).waitFor();
      await page.getByRole("main").getByRole("link", { name: "Create Job" }).first().click();
      await page.waitForURL("**/create");
      await tour(page).waitFor({ state: "detached" });
    });
  });

  test("passes every rule of axe in every theme, and fits a phone", async () => {
    for (const theme of themes) {
      await visit("/jobs", { theme, isFirst: true }, async (page) => {
        await tour(page).waitFor();
        await inspect(page, `tour-${theme}`, "[role=dialog]");
      });
    }
    await visit("/jobs", { width: 390, isFirst: true }, async (page) => {
      await tour(page).waitFor();
      for (const [index, title] of titles.entries()) {
        await tour(page).getByRole("heading", { name: title }).waitFor();
        const box = await tour(page).boundingBox();
        expect(box && box.x >= 0 && box.x + box.width <= 390).toBe(true);
        await inspect(page, `tour-phone-${index + 1}`, "[role=dialog]");
        await page.keyboard.press("Enter");
      }
    });
  });
});
