import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import {
  ask,
  createJob,
  createMember,
  createNamespace,
  inspect,
  inspectThemes,
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
        await page.getByRole("listitem").filter({ hasText: "GPUs in use" }).getByText("of").waitFor();
        await inspect(page, `admin-overview-${theme}`);
      });
      await visit(`/admin/usage?namespace=${namespace}`, { theme }, async (page) => {
        await page.locator("td", { hasText: "cpu" }).first().waitFor();
        await inspect(page, `admin-usage-${theme}`);
      });
      await visit(`/admin/audit?namespace=${namespace}`, { theme }, async (page) => {
        await page.locator("tr", { hasText: "CreateJob" }).first().getByText("200", { exact: true }).waitFor();
        await inspect(page, `admin-audit-${theme}`);
      });
    }
  });

  test("say what would fit, and the address holds the question", async () => {
    await visit("/admin/capacity?namespace=", {}, async (page) => {
      await page.locator("#capacity-workers").fill("1");
      await page.locator("#capacity-gpus").fill("0");
      await page.locator("#capacity-cpu").fill("100m");
      await page.locator("#capacity-memory").fill("lots");
      await page.getByRole("button", { name: "Check" }).click();
      await page.getByText("is not a quantity").first().waitFor();
      await page.locator("#capacity-memory").fill("64Mi");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "They would start now" }).waitFor();
      expect(new URL(page.url()).searchParams.get("memory")).toBe("64Mi");
      await page.reload();
      await page.getByRole("heading", { name: "They would start now" }).waitFor();
      expect(await page.locator("#capacity-memory").inputValue()).toBe("64Mi");
    });
    const namespace = createNamespace("capacity");
    kubectl("-n", namespace, "create", "quota", "few", "--hard=requests.cpu=1");
    for (const theme of themes) {
      const question = "workers=2&gpus=0&cpu=100m&memory=64Mi";
      await visit(`/admin/capacity?namespace=&${question}`, { theme }, async (page) => {
        await page.getByRole("heading", { name: "They would start now" }).waitFor();
        await page.getByRole("heading", { name: "Nodes with room" }).waitFor();
        await inspect(page, `admin-capacity-${theme}`);
      });
      await visit(`/admin/capacity?namespace=${namespace}&workers=2&cpu=1`, { theme }, async (page) => {
        await page.getByRole("heading", { name: "They would be refused" }).waitFor();
        await page.getByText("Quota exceeded").first().waitFor();
        await inspect(page, `admin-capacity-refused-${theme}`);
      });
      await visit("/admin/capacity?namespace=&workers=1000&gpus=64", { theme, width: 400 }, async (page) => {
        await page.getByRole("heading", { name: "They do not fit on the present nodes" }).waitFor();
        await inspect(page, `admin-capacity-never-${theme}`);
      });
    }
  });

  test("advise on requests by what former runs used, where a job is created too", async () => {
    const namespace = createNamespace("advice");
    // Longer than the time between two samples.
    const wasteful = { workers: 1, memory: "1Gi", cpu: "1", command: ["sleep", "20"] };
    for (const name of ["one", "two", "three"]) await createJob(namespace, { name, ...wasteful });
    for (const name of ["one", "two", "three"]) await waitForJob(namespace, name, "Succeeded", 120_000);
    type Advice = { programs: { runs: unknown[] }[] };
    const runs = async () =>
      (await ask<Advice>("GET", `/api/v1/advice?namespace=${namespace}`)).programs[0]?.runs.length;
    await expect.poll(runs, { timeout: 30_000, interval: 500 }).toBe(3);
    for (const theme of themes) {
      await visit(`/admin/usage?namespace=${namespace}&view=chart`, { theme }, async (page) => {
        await page.getByRole("img", { name: /^cpu by namespace, over time, in core hours/ }).waitFor();
        await page.locator("tr", { hasText: "Memory of a Worker" }).getByText("Too much").waitFor();
        await inspect(page, `admin-usage-chart-${theme}`);
        await page.getByRole("button", { name: "Show the figures" }).click();
        await page.getByRole("columnheader", { name: namespace }).waitFor();
        await page.getByRole("heading", { name: "Requests that should change" }).scrollIntoViewIfNeeded();
        await inspect(page, `admin-usage-advice-${theme}`);
      });
      await visit(`/create/job?namespace=${namespace}&from=${namespace}/mpijob/one`, { theme }, async (page) => {
        await page.getByRole("heading", { name: "Former runs" }).waitFor();
        await inspect(page, `create-advice-${theme}`);
        await page.getByRole("button", { name: "Use 64Mi" }).first().click();
        expect(await page.locator("#field-memory").inputValue()).toBe("64Mi");
        await page.getByRole("button", { name: "Use 64Mi" }).first().waitFor({ state: "detached" });
      });
    }
  });

  test("show costs where prices are set, in every theme", async () => {
    const namespace = createNamespace("costs");
    await createJob(namespace, { name: "priced", cpu: "100m", command: ["sleep", "600"] });
    await waitForJob(namespace, "priced", "Running");
    await visit(`/admin/usage?namespace=${namespace}`, {}, async (page) => {
      await page.locator("td", { hasText: "cpu" }).first().waitFor();
      expect(await page.getByText("Cost", { exact: true }).count()).toBe(0);
    });
    kubectl("create", "namespace", "odh-training-prices");
    const prices = ["currency=EUR", "cpu-hour=3600", "gpu-hour=2.50"].map((price) => `--from-literal=${price}`);
    kubectl("-n", "odh-training-prices", "create", "configmap", "prices", ...prices);
    try {
      for (const theme of themes) {
        await visit(`/admin/usage?namespace=${namespace}`, { theme }, async (page) => {
          await page.getByText("Cost in total:").waitFor();
          await page.getByText("3600 for a CPU core").waitFor();
          await page.locator("td", { hasText: "no price" }).first().waitFor();
          await inspect(page, `admin-usage-cost-${theme}`);
        });
        await visit("/admin/capacity?namespace=&workers=8&gpus=1", { theme }, async (page) => {
          await page.getByText("about 20.00 EUR per hour (8 GPUs at 2.5)").waitFor();
        });
      }
      await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
        await page.locator("#field-name").fill("estimated");
        await page.locator("#field-image").fill(image);
        await page.locator("#field-command").fill("true");
        await page.locator("#field-cpu").fill("1");
        await page.getByText("EUR per hour").waitFor();
      });
    } finally {
      kubectl("delete", "namespace", "odh-training-prices");
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
    await visit(`/admin?namespace=${own}`, { token }, async (page) => {
      await page.getByText(/^Free now: \d|^No node has GPUs$/).waitFor();
      await inspectThemes(page, "admin-overview-member");
    });
    for (const address of ["/admin/audit?namespace=", "/admin/capacity?namespace=&workers=1&gpus=1"]) {
      await visit(address, { token }, async (page) => {
        await page.getByRole("heading", { name: "You have no permission for this" }).waitFor();
      });
    }
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
      // The button is gone with its row.
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Templates");
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
      await inspectThemes(page, "notifications-edit");
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
