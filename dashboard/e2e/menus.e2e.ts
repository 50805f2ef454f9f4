// Menus, popovers and dialogs: each is opened, and the page with it passes every rule of axe in every theme.

import type { Locator, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import { createJob, createNamespace, inspectThemes, openBrowser, visit, waitForJob } from "./stage";

openBrowser();

type Opening = [name: string, button: Locator, part: Locator];

/** Waits until it is there and no longer fades in. */
async function shown(part: Locator): Promise<void> {
  await part.waitFor();
  await expect.poll(() => part.evaluate((element) => getComputedStyle(element).opacity)).toBe("1");
}

/** Opens one after the other, inspects the page, and closes it again. */
async function inspectOpen(page: Page, all: Opening[]): Promise<void> {
  for (const [name, button, part] of all) {
    await button.click();
    await shown(part);
    await inspectThemes(page, `open-${name}`);
    await page.keyboard.press("Escape");
    await part.waitFor({ state: "hidden" });
  }
}

const buttonIn = (page: Page) => (name: string | RegExp) => page.getByRole("button", { name, exact: true });

describe("what opens passes every rule of axe in every theme", () => {
  test("over the list of jobs", async () => {
    const namespace = createNamespace("menus");
    await createJob(namespace, { name: "paused", suspend: true, command: ["true"] });
    await visit(`/jobs?namespace=${namespace}`, {}, async (page) => {
      const [button, menu, dialog] = [buttonIn(page), page.getByRole("menu"), page.getByRole("dialog")];
      const menuOf = (name: string): Opening => [name.toLowerCase(), button(name), menu];
      await button("Live").waitFor();
      await inspectOpen(page, [
        ["namespace", button(/^Namespace:/), page.getByRole("listbox", { name: "Namespace" })],
        ["live", button("Live"), dialog],
        ["theme", button(/^Theme:/), page.getByRole("listbox", { name: "Theme" })],
        ["user", button(/^User /), menu],
        ...["Status", "Type", "Owner", "Views"].map(menuOf),
        ["columns", button(/^Columns/), menu],
        ["created", button("Created"), dialog],
        ["row", button("Actions for paused"), menu],
      ]);
      await button("Views").click();
      await page.getByRole("menuitem", { name: "Save this view" }).click();
      await shown(dialog);
      await inspectThemes(page, "open-view");
      await page.keyboard.press("Escape");
      await button("Actions for paused").click();
      await page.getByRole("menuitem", { name: "Resume" }).click();
      await page.getByRole("heading", { name: "Resumed 1 job" }).waitFor();
      await inspectThemes(page, "open-notice");
    });
  });

  test("over the page of a job", async () => {
    const namespace = createNamespace("menus");
    await createJob(namespace, { name: "runs", workers: 2, command: ["sh", "-c", "echo begun; sleep 600"] });
    await waitForJob(namespace, "runs", "Running");
    await visit(`/jobs/${namespace}/mpijob/runs`, {}, async (page) => {
      const [button, menu] = [buttonIn(page), page.getByRole("menu")];
      await page.getByRole("option", { name: /^Worker 1, Running/ }).click();
      await page.getByRole("heading", { name: "runs-worker-1" }).waitFor();
      await inspectOpen(page, [["job", button("Actions"), menu]]);
      await page.getByRole("tab", { name: "Events" }).click();
      const objects = page.getByRole("button", { name: / and \d+ more$/ }).first();
      await inspectOpen(page, [["event", objects, page.getByRole("dialog")]]);
      await page.getByRole("tab", { name: "Logs" }).click();
      await page.locator(".log-line").first().waitFor();
      await inspectOpen(page, [["log", button("Options"), menu]]);
    });
  });

  test("over the form, and over the template that it saves", async () => {
    const namespace = createNamespace("menus");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      const [button, dialog] = [buttonIn(page), page.getByRole("dialog")];
      await page.locator("#field-name").fill("menus");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill("true");
      await page.getByText("Fits within the quota").waitFor();
      await inspectOpen(page, [
        ["help", button("Help for Name"), dialog],
        ["copy", button("Copy as"), page.getByRole("menu")],
        ["template", page.getByRole("button", { name: "Save as Template" }), dialog],
      ]);
      await page.getByRole("button", { name: "Save as Template" }).click();
      await page.locator("#template-name").fill("usual");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Saved the template usual, version 1" }).waitFor();
      await page.getByRole("link", { name: "Templates", exact: true }).click();
      await inspectOpen(page, [["template-delete", button("Delete usual"), dialog]]);
    });
  });

  test("over the rules of notifications", async () => {
    const namespace = createNamespace("menus");
    await visit(`/notifications?namespace=${namespace}`, {}, async (page) => {
      const [button, menu, dialog] = [buttonIn(page), page.getByRole("menu"), page.getByRole("dialog")];
      await inspectOpen(page, [["rule", button("Create rule"), dialog]]);
      await button("Create rule").click();
      await page.locator("#rule-name").fill("long");
      await page.locator("#rule-address").fill("https://example.com/hook");
      await page.getByRole("radio", { name: "When a job runs for long" }).check();
      await page.locator("#rule-time").fill("1h");
      await inspectThemes(page, "open-rule-time");
      await button("Save").click();
      await page.getByRole("heading", { name: "Keep this key" }).waitFor();
      await inspectThemes(page, "open-rule-key");
      await dialog.getByRole("button", { name: "Close", exact: true }).last().click();
      await inspectOpen(page, [["rule-menu", button("Actions for long"), menu]]);
      await button("Actions for long").click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      await shown(dialog);
      await inspectThemes(page, "open-rule-delete");
    });
  });
});
