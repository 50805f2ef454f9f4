import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { image } from "./cluster";
import {
  ask,
  cluster,
  createEditor,
  createJob,
  createMember,
  createNamespace,
  inspect,
  inspectThemes,
  kubectl,
  odh,
  openBrowser,
  tabTo,
  themes,
  visit,
  waitForJob,
} from "./stage";

openBrowser();

type Manifest = { manifest: string };
const manifestOf = (namespace: string, name: string) =>
  ask<Manifest>("GET", `/api/v1/namespaces/${namespace}/jobs/mpijob/${name}`);

async function fillIn(page: Page, name: string): Promise<void> {
  await page.locator("#field-name").fill(name);
  await page.locator("#field-image").fill(image);
  await page.locator("#field-command").fill("true");
}

/** Chooses an entry of the job's menu by keyboard. */
async function chooseAction(page: Page, name: string, key: "Tab" | "Shift+Tab"): Promise<void> {
  await tabTo(page, /^Actions$/, key);
  await page.keyboard.press("Enter");
  await expect.poll(() => page.evaluate(() => document.activeElement?.getAttribute("role"))).toBe("menuitem");
  await tabTo(page, name, "ArrowDown");
  await page.keyboard.press("Enter");
}

/** The id of what has the focus. */
const focused = (page: Page) => page.evaluate(() => document.activeElement?.id);

/** Opens what few people need. A kind may not have it. */
async function openAll(page: Page): Promise<void> {
  await page.locator("#field-name").waitFor();
  for (const name of ["Show advanced options", "Only the Workers", "Only the Launcher"]) {
    const section = page.getByRole("button", { name, exact: true });
    if (await section.count()) await section.click();
  }
}

async function openFile(page: Page, content: string): Promise<void> {
  const file = { name: "job.yaml", mimeType: "text/yaml", buffer: Buffer.from(content) };
  await page.locator("input[type=file]").setInputFiles(file);
}

/** A manifest as a person writes it, with something that no field can say. */
function manifestIn(namespace: string): string {
  const pod = (role: string, command: string) =>
    `{spec: {terminationGracePeriodSeconds: 5, containers: [{name: ${role}, image: "${image}", command: ${command}}]}}`;
  return `# From a file.
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: filed
  namespace: ${namespace}
spec:
  mpiReplicaSpecs:
    Launcher:
      template: ${pod("launcher", '["true"]')}
    Worker:
      replicas: 2 # enough
      template: ${pod("worker", "[]")}
`;
}

describe("creating a job", () => {
  test("passes every rule of axe in every theme", async () => {
    const namespace = createNamespace("create");
    for (const theme of themes) {
      await visit(`/create?namespace=${namespace}`, { theme }, (page) => inspect(page, `create-guide-${theme}`));
      await visit(`/create/job?type=mpijob&namespace=${namespace}`, { theme }, async (page) => {
        await page.locator("#field-image").fill(image);
        await page.locator("#field-command").fill("true");
        await page.locator("#field-name").fill("Not_A_Name");
        await page.getByText(/is not a valid host name/).waitFor();
        await page.getByRole("button", { name: "Form and YAML" }).click();
        await openAll(page);
        await page.getByRole("textbox", { name: "Manifest, YAML" }).waitFor();
        await inspect(page, `create-fault-${theme}`);
      });
      await visit(`/create/job?type=mpijob&namespace=${namespace}`, { theme }, async (page) => {
        await page.locator("#field-name").fill("big");
        await page.locator("#field-image").fill(image);
        await page.locator("#field-command").fill("python train.py");
        await page.locator("#field-workers").fill("4");
        await page.locator("#field-gpus").fill("8");
        await page.getByText(/Insufficient GPUs: /).waitFor();
        await page.getByText("32", { exact: true }).waitFor();
        await page
          .locator("#field-gpus-about")
          .getByText(/^Free now: \d|^No node has GPUs/)
          .waitFor();
        await inspect(page, `create-waits-${theme}`);
      });
    }
  });

  test("is whole on a phone, for every kind of job", async () => {
    const namespace = createNamespace("phone");
    for (const kind of ["mpijob", "trainjob", "pytorchjob", "tfjob"]) {
      await visit(`/create/job?type=${kind}&namespace=${namespace}`, { width: 320 }, async (page) => {
        await openAll(page);
        for (const list of ["Volumes", "Labels", "Environment variables"])
          await page.getByRole("button", { name: `Add to ${list}`, exact: true }).click();
        await inspect(page, `create-phone-${kind}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow).toBeLessThanOrEqual(0);
      });
    }
  });

  test("works by keyboard alone, from the guide to the job, its log, its next run and its deletion", async () => {
    const namespace = createNamespace("keyboard");
    await visit(`/create?namespace=${namespace}`, { token: createEditor(namespace) }, async (page) => {
      await tabTo(page, "Choose MPIJob");
      await page.keyboard.press("Enter");
      await page.locator("#field-name").waitFor();
      await page.getByRole("heading", { level: 1, name: "Create MPIJob" }).waitFor();
      await tabTo(page, "Choose another kind of job");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "Create job" }).waitFor();
      await tabTo(page, "Choose MPIJob");
      await page.keyboard.press("Enter");
      await page.locator("#field-name").waitFor();
      await tabTo(page, /^Name(?!space)/);
      await page.keyboard.type("typed");
      await tabTo(page, "Training image");
      await page.keyboard.type(image);
      await tabTo(page, "Command");
      await page.keyboard.type("sh -c 'echo \"two words\"'");
      await tabTo(page, "Create job");
      await page.keyboard.press("Enter");
      await page.waitForURL(`**/jobs/${namespace}/mpijob/typed**`);
      await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 60_000 });

      await tabTo(page, namespace, "Shift+Tab");
      await page.keyboard.press("Enter");
      await page.getByText("1 job", { exact: true }).waitFor();
      await tabTo(page, /^typed$/);
      await page.keyboard.press("Enter");
      await page.getByRole("tab", { name: "Overview" }).waitFor();
      await tabTo(page, "Overview");
      for (let presses = 0; presses < 3; presses++) await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
      await page.getByRole("region", { name: "Log", exact: true }).getByText("two words").first().waitFor();

      await chooseAction(page, "Retry", "Shift+Tab");
      await page.getByRole("heading", { level: 1, name: "typed-retry-2" }).waitFor();
      await page.getByRole("button", { name: "Actions", exact: true }).waitFor();
      await chooseAction(page, "Delete", "Tab");
      await page.getByRole("dialog").getByText(`${namespace}/typed-retry-2`).waitFor();
      await expect.poll(() => focused(page)).toBe("final-dismiss");
      await tabTo(page, "Delete", "Shift+Tab");
      await page.keyboard.press("Enter");
      await page.waitForURL("**/jobs");
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Jobs");
    });
    expect((await manifestOf(namespace, "typed")).manifest).toContain('echo "two words"');
  });

  test("keeps form and YAML in step, with the person's comments", async () => {
    const namespace = createNamespace("step");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("button", { name: "Form and YAML" }).click();
      const editor = page.getByRole("textbox", { name: "Manifest, YAML" });
      await expect.poll(() => editor.textContent()).toContain("kind: MPIJob");
      await editor.focus();
      await page.keyboard.press("Control+Home");
      await page.keyboard.type("# Ask Jane first.\n");
      await page.locator("#field-name").fill("commented");
      await page.locator("#field-workers").fill("3");
      await expect.poll(() => editor.textContent()).toContain("# Ask Jane first.");
      await expect.poll(() => editor.textContent()).toContain("replicas: 3");
      await editor.focus();
      await page.keyboard.press("Control+Home");
      await page.keyboard.type("spec: [");
      await page.getByText(/^Warning alert:Line \d+:/).waitFor();
      for (let presses = 0; presses < "spec: [".length; presses++) await page.keyboard.press("Backspace");
      await page.locator("#field-workers").waitFor();
      expect(await page.locator("#field-workers").inputValue()).toBe("3");
      await page.reload();
      expect(await page.locator("#field-name").inputValue()).toBe("commented");
      await page.getByText("What you typed before is still here.").waitFor();
    });
  });

  test("begins with a former job and a change, and with a file", async () => {
    const namespace = createNamespace("begin");
    await createJob(namespace, { name: "former", workers: 2, memory: "64Mi", command: ["true"] });
    await visit(
      `/create/job?namespace=${namespace}&from=${namespace}/mpijob/former&set=worker.memory=128Mi`,
      {},
      async (page) => {
        expect(await page.locator("#field-memory").inputValue()).toBe("128Mi");
        expect(await page.locator("#field-command").inputValue()).toBe("true");
        // The former job's image is offered, and that of no other namespace.
        const offered = page.locator("#offers-images option");
        await expect
          .poll(() => offered.evaluateAll((all) => all.map((one) => one.getAttribute("value"))))
          .toEqual([image]);
        expect(await page.locator("#field-image").getAttribute("list")).toBe("offers-images");
        await page.getByRole("button", { name: "Create Job" }).click();
        await page.waitForURL(`**/jobs/${namespace}/mpijob/former-*`);
      },
    );
    await visit(`/create?namespace=default`, {}, async (page) => {
      await openFile(page, manifestIn(namespace));
      await page.locator("#field-name").waitFor();
      expect(await page.locator("#field-name").inputValue()).toBe("filed");
      expect(await page.locator("#field-namespace").inputValue()).toBe(namespace);
      await page.locator("#field-workers").fill("1");
      await page.getByText("Fits within the quota").waitFor();
      expect(await page.locator("#field-namespace").inputValue()).toBe(namespace);
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/filed**`);
    });
    const { manifest } = await manifestOf(namespace, "filed");
    expect(manifest).toMatch(/replicas: 1\n/);
    expect(manifest).toContain("terminationGracePeriodSeconds: 5");
  });

  test("shows what no field can say, and what it cannot show as a form at all", async () => {
    const namespace = createNamespace("unread");
    await visit(`/create?namespace=${namespace}`, {}, async (page) => {
      await openFile(page, "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: filed}\nspec: {}\n");
      await page.getByText("The form cannot show this manifest").waitFor();
      await page
        .getByText(/mpiReplicaSpecs/)
        .first()
        .waitFor();
      await inspectThemes(page, "create-no-form");
    });
  });

  test("creates what was typed up to the last key, as fields and as a manifest", async () => {
    const namespace = createNamespace("last");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await fillIn(page, "fields");
      await page.locator("#field-workers").fill("3");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/fields**`);
    });
    expect((await manifestOf(namespace, "fields")).manifest).toMatch(/replicas: 3\n/);
    await visit(`/create?namespace=${namespace}`, {}, async (page) => {
      await openFile(page, manifestIn(namespace));
      await page.locator("#field-workers").fill("3");
      await page.locator("#field-name").fill("typed");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/typed**`);
    });
    expect((await manifestOf(namespace, "typed")).manifest).toMatch(/replicas: 3\n/);
  });

  test("shows the answer to what was typed last, however late an earlier one is", async () => {
    const namespace = createNamespace("late");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("button", { name: "Form and YAML" }).click();
      const editor = page.getByRole("textbox", { name: "Manifest, YAML" });
      await expect.poll(() => editor.textContent()).toContain("kind: MPIJob");
      let release = () => {};
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      await page.route("**/render", async (route) => {
        if (route.request().postDataJSON().spec?.name === "first") await held;
        // A request that the page gave up is gone.
        await route.continue().catch(() => {});
      });
      const asked = page.waitForRequest((request) => request.postDataJSON()?.spec?.name === "first");
      await page.locator("#field-name").fill("first");
      await asked;
      await page.locator("#field-name").fill("second");
      await expect.poll(() => editor.textContent()).toContain("name: second");
      release();
      await page.locator("#field-workers").fill("7");
      await expect.poll(() => editor.textContent()).toContain("replicas: 7");
      expect(await editor.textContent()).toContain("name: second");
    });
  });

  test("names what cannot be sent yet, and sends nothing", async () => {
    const namespace = createNamespace("blocked");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await fillIn(page, "blocked");
      await page.locator("#field-workers").fill("many");
      await page.locator("#field-image").focus();
      expect(await page.locator("#field-workers").inputValue()).toBe("many");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.getByRole("heading", { name: "Correct these fields first" }).waitFor();
      expect(await focused(page)).toBe("field-workers");
      await inspectThemes(page, "create-blocked");
      await page.locator("#field-workers").fill("1");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/blocked**`);
    });
  });

  test("leads to the first of the faults that the service finds, also in a section that is closed", async () => {
    const namespace = createNamespace("faulty");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await page.locator("#field-name").waitFor();
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.getByRole("heading", { name: "Correct these fields first" }).waitFor();
      await expect.poll(() => focused(page)).toBe("field-name");
      for (const field of ["name", "image", "command"])
        await page
          .locator(`#field-${field}-fault`)
          .getByText(/^is (required|missing)/)
          .waitFor();
      await fillIn(page, "faulty");
      await openAll(page);
      await page.getByRole("button", { name: "Add to Limits (Launcher)" }).click();
      const limit = (part: string) => page.getByLabel(`Limits (Launcher) 1, ${part}`, { exact: true });
      await limit("Resource").fill("cpu");
      await limit("Amount").fill("one");
      await page.getByRole("button", { name: "Only the Launcher" }).click();
      await page.locator("#field-memory").fill("16");
      await page.getByRole("button", { name: "Create Job" }).click();
      await expect.poll(() => focused(page)).toBe("field-memory");
      const summary = page.getByRole("heading", { name: "Correct these fields first" }).locator("xpath=../..");
      await expect
        .poll(() => summary.getByRole("listitem").allTextContents())
        .toEqual([
          expect.stringMatching(/^Memory per Worker is 16 bytes/),
          expect.stringMatching(/^Limits \(Launcher\) "one" is not a quantity/),
        ]);
      await summary.getByRole("button", { name: "Limits (Launcher)", exact: true }).click();
      expect(await limit("Resource").evaluate((input) => input === document.activeElement)).toBe(true);
      await inspectThemes(page, "create-faults");
      // What is corrected leaves the list, which stays: it would be announced again if it came again.
      await summary.evaluate((list) => list.setAttribute("data-first", ""));
      await page.getByRole("button", { name: "Use 16Gi" }).click();
      await expect.poll(() => summary.getByRole("listitem").count()).toBe(1);
      expect(await page.locator("[data-first]").count()).toBe(1);
      await page.locator("#field-memory").fill("");
      await limit("Amount").fill("1");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/faulty**`);
    });
  });

  test("leads to the namespace if there is none", async () => {
    await visit("/create/job?type=mpijob&namespace=", {}, async (page) => {
      await fillIn(page, "nowhere");
      await page.getByRole("button", { name: "Create Job" }).click();
      await page
        .getByText(/is required: choose where the job runs/)
        .first()
        .waitFor();
      expect(await focused(page)).toBe("field-namespace");
    });
  });

  test("keeps a pasted script as it is, and lets a shell run it", async () => {
    const namespace = createNamespace("script");
    const script = 'echo "rank $OMPI_COMM_WORLD_RANK" |\n  tr a-z A-Z\necho done';
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await fillIn(page, "script");
      await page.locator("#field-command").fill(script);
      await page.locator("#field-name").focus();
      await page.getByText(/No shell runs the command/).waitFor();
      await inspectThemes(page, "create-shell");
      await page.reload();
      expect(await page.locator("#field-command").inputValue()).toBe(script);
      await page.getByRole("button", { name: "Run it with sh -c" }).click();
      await page.getByText(/No shell runs the command/).waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/script**`);
    });
    await waitForJob(namespace, "script", "Succeeded");
    expect(odh("training", "logs", "mpijob", "script", "-n", namespace)).toMatch(/RANK 0[\s\S]*done/);
  });

  test("offers the namespaces in which a person may create jobs who may list none", async () => {
    const [own, second, other] = [createNamespace("own"), createNamespace("second"), createNamespace("other")];
    const [member, guest] = [createMember(own), createMember(second)];
    const account = `--serviceaccount=${second}:member`;
    kubectl("-n", own, "create", "rolebinding", "guest", "--clusterrole=kubeflow-mpijobs-edit", account);
    await visit("/create/job?type=mpijob&namespace=", { token: member }, async (page) => {
      await expect.poll(() => page.locator("#field-namespace").inputValue()).toBe(own);
    });
    await visit("/create/job?type=mpijob&namespace=", { token: guest }, async (page) => {
      const options = page.locator("#field-namespace-list option");
      const offered = () => options.evaluateAll((all) => all.map((one) => one.getAttribute("value")));
      await expect.poll(offered).toEqual([own, second]);
      expect(await offered()).not.toContain(other);
      expect(await page.locator("#field-namespace").inputValue()).toBe("");
      await page.locator("#field-namespace").fill(second);
      await fillIn(page, "first");
      await page.getByRole("button", { name: "Create job" }).click();
      await page.waitForURL(`**/jobs/${second}/mpijob/first**`);
      await page.goto(`${cluster.dashboard}/create/job?type=mpijob&namespace=`);
      await expect.poll(() => page.locator("#field-namespace").inputValue()).toBe(second);
    });
  });

  test("has help that leads to a document of the service itself", async () => {
    const namespace = createNamespace("help");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await page.getByRole("button", { name: "Help for Number of Workers" }).click();
      const address = await page.getByRole("link", { name: "Read more" }).getAttribute("href");
      expect(address).toBe("/docs#JobSpec.workers");
      await page.goto(cluster.dashboard + address);
      await page.locator("[id='JobSpec.workers']").waitFor();
      await page.goto(`${cluster.dashboard}/docs/troubleshooting#outofmemory`);
      await page.getByRole("heading", { name: "OutOfMemory", exact: true }).waitFor();
    });
  });

  test("says before the form is filled in that a person may not create jobs", async () => {
    const [own, other] = [createNamespace("own"), createNamespace("other")];
    const token = createMember(own);
    await visit(`/create/job?type=mpijob&namespace=${other}`, { token }, async (page) => {
      await page.getByText(`lacks 'create' permission for MPIJobs in namespace '${other}'`).waitFor();
      await page.getByRole("button", { name: "Create Job" }).click();
      expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("You cannot create jobs here");
      await inspectThemes(page, "create-forbidden");
    });
  });

  test("keeps what was typed while the service is away", async () => {
    const namespace = createNamespace("away");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await fillIn(page, "patient");
      await page.getByRole("button", { name: "Form and YAML" }).click();
      const editor = page.getByRole("textbox", { name: "Manifest, YAML" });
      await expect.poll(() => editor.textContent()).toContain("name: patient");
      await page.context().setOffline(true);
      await page.locator("#field-workers").fill("1");
      await page.getByText("The manifest does not contain your last changes yet").waitFor();
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.getByRole("heading", { name: "The job was not created" }).waitFor();
      await inspectThemes(page, "create-disconnected");
      await page.context().setOffline(false);
      await expect.poll(() => editor.textContent()).toMatch(/Worker: +replicas: 1 /);
      await page.getByText("The manifest does not contain your last changes yet").waitFor({ state: "detached" });
      await page.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(`**/jobs/${namespace}/mpijob/patient**`);
    });
  });

  test("checks again by itself once the service answers", async () => {
    const namespace = createNamespace("again");
    await visit(`/create/job?type=mpijob&namespace=${namespace}`, {}, async (page) => {
      await page.route("**/api/v1/**", (route) => route.abort("connectionrefused"));
      await page.locator("#field-name").fill("patient");
      await page.locator("#field-image").fill(image);
      await page.locator("#field-command").fill("true");
      await page.getByText("The training service does not answer").waitFor();
      await page.unroute("**/api/v1/**");
      await page.getByText("Fits within the quota").waitFor();
    });
  });

  test("executes nothing of a hostile job, and shows it as it is", async () => {
    const namespace = createNamespace("hostile");
    const hostile = "<img src=x onerror=alert(1)> \u202Egnp.exe \u001B[31mred javascript:alert(3)";
    await createJob(namespace, {
      name: "hostile",
      suspend: true,
      command: ["echo", hostile],
      env: { X: "</script><script>alert(4)</script>" },
    });
    await visit(`/create/job?namespace=${namespace}&from=${namespace}/mpijob/hostile`, {}, async (page) => {
      expect(await page.locator("#field-command").inputValue()).toContain("<img src=x onerror=alert(1)>");
      await page.getByRole("button", { name: "Form and YAML" }).click();
      await page.getByRole("textbox", { name: "Manifest, YAML" }).waitFor();
      await page.getByLabel("Environment variables 1, Name", { exact: true }).waitFor();
      expect(await page.locator("img[src=x], script:not([src])").count()).toBe(0);
    });
  });
});
