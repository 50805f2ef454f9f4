import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import {
  ask,
  createJob,
  createMember,
  createNamespace,
  inspect,
  kubectl,
  openBrowser,
  themes,
  visit,
  waitForJob,
} from "./stage";

openBrowser();

describe("the administrator's pages", () => {
  test("show who uses what, in every theme", async () => {
    const namespace = createNamespace("admin");
    kubectl("-n", namespace, "create", "quota", "gpus", "--hard=requests.nvidia.com/gpu=8");
    await createJob(namespace, { name: "counted", cpu: "100m", command: ["sleep", "600"] });
    await waitForJob(namespace, "counted", "Running");
    for (const theme of themes) {
      await visit("/admin?namespace=", { theme }, async (page) => {
        await page.getByRole("link", { name: namespace }).first().waitFor();
        await inspect(page, `admin-overview-${theme}`);
      });
      await visit(`/admin/usage?namespace=${namespace}`, { theme }, async (page) => {
        await page.locator("td", { hasText: "cpu" }).first().waitFor();
        await inspect(page, `admin-usage-${theme}`);
      });
      await visit(`/admin/audit?namespace=${namespace}`, { theme }, async (page) => {
        await page.locator("td", { hasText: "CreateJob" }).first().waitFor();
        await inspect(page, `admin-audit-${theme}`);
      });
    }
  });

  test("show a member of a team nothing of others", async () => {
    const [own, other] = [createNamespace("own"), createNamespace("other")];
    const token = createMember(own);
    await createJob(other, { name: "hidden" });
    await visit("/admin?namespace=", { token }, async (page) => {
      await page.getByRole("heading", { name: "You may not read everything" }).waitFor();
      expect(await page.getByText(other).count()).toBe(0);
    });
    await visit("/admin/audit?namespace=", { token }, async (page) => {
      await page.getByRole("heading", { name: "You have no permission for this" }).waitFor();
    });
  });
});

describe("templates", () => {
  test("are saved from the form, used with another name, and deleted", async () => {
    const namespace = createNamespace("templates");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await page.locator("#field-name").fill("first");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill("true");
      await page.getByRole("button", { name: "Save as Template" }).click();
      await page.locator("#template-name").fill("usual");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "Saved the template usual, version 1" }).waitFor();
    });
    for (const theme of themes) {
      await visit(`/templates?namespace=${namespace}`, { theme }, async (page) => {
        await page.getByRole("button", { name: "Use usual" }).click();
        await page.getByRole("dialog").waitFor();
        await inspect(page, `templates-${theme}`);
      });
    }
    await visit(`/templates?namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("button", { name: "Use usual" }).click();
      await page.locator("#use-name").fill("second");
      await page.keyboard.press("Enter");
      await page.locator("#field-name").waitFor();
      expect(await page.locator("#field-name").inputValue()).toBe("second");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/second**`);
      await page.goto(`${new URL(page.url()).origin}/templates?namespace=${namespace}`);
      await page.getByRole("button", { name: "Delete usual" }).click();
      await page.getByRole("button", { name: "Delete", exact: true }).click();
      await page.getByRole("heading", { name: "No templates yet" }).waitFor();
    });
  });
});

describe("notifications", () => {
  test("are set up by a rule, which is shown, silenced and deleted", async () => {
    const namespace = createNamespace("rules");
    await visit(`/notifications?namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("button", { name: "Create rule" }).click();
      await page.locator("#rule-name").fill("failures");
      await page.locator("#rule-address").fill("https://example.com/hook");
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByRole("heading", { name: "Keep this key" }).waitFor();
      await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).last().click();
      await page.getByText("All jobs: Failed").waitFor();
    });
    for (const theme of themes) {
      await visit(`/notifications?namespace=${namespace}`, { theme }, async (page) => {
        await page.getByText("All jobs: Failed").waitFor();
        await inspect(page, `notifications-${theme}`);
      });
    }
    await visit(`/notifications?namespace=${namespace}`, {}, async (page) => {
      const actions = page.locator("tr", { hasText: "failures" }).getByRole("button");
      await actions.click();
      await page.getByRole("menuitem", { name: "Edit" }).click();
      await page.getByRole("heading", { name: "Edit failures" }).waitFor();
      await inspect(page, "notifications-edit-light");
      await page.getByRole("checkbox", { name: "Running" }).check();
      await page.getByRole("button", { name: "Save" }).click();
      await page.getByText("All jobs: Running, Failed").waitFor();
      await actions.click();
      await page.getByRole("menuitem", { name: "Silence" }).click();
      await page.getByText("Silenced").waitFor();
      await actions.click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
      await page.getByRole("heading", { name: "No rules yet" }).waitFor();
    });
    type Rules = { rules: unknown[] };
    expect((await ask<Rules>("GET", `/api/v1/namespaces/${namespace}/notifications`)).rules).toEqual([]);
  });
});
