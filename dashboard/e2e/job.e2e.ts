import { describe, expect, onTestFinished, test } from "vitest";
import {
  ask,
  createJob,
  createMember,
  createNamespace,
  inspect,
  inspectThemes,
  kubectl,
  openBrowser,
  type Theme,
  tabTo,
  themes,
  visit,
  waitForJob,
} from "./stage";

openBrowser();

const tabs = ["Overview", "Configuration", "Workers", "Logs", "Metrics", "Events", "Artifacts"];

// Rank 1 of three takes 240 MB; the others wait for it.
const hungry = `
import os, time
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
print(f"rank {rank} starts", flush=True)
time.sleep(1)
shards = []
if rank == 1:
    for shard in range(12):
        print(f"rank 1 loads shard {shard}", flush=True)
        shards.append(bytearray(os.urandom(1) * 20_000_000))
        time.sleep(0.1)
`;

const address = (namespace: string, name: string) => `/jobs/${namespace}/mpijob/${name}`;

async function createOutOfMemory(namespace: string, name: string): Promise<void> {
  const command = ["python3", "-c", hungry];
  await createJob(namespace, { name, workers: 3, command, memory: "128Mi", retries: 0, cleanPodPolicy: "Running" });
  await waitForJob(namespace, name, "Failed");
}

describe("a Worker out of memory", () => {
  test("is explained, mended with one click, and both attempts are compared", async () => {
    const namespace = createNamespace("memory");
    await createOutOfMemory(namespace, "train");
    await visit(address(namespace, "train"), {}, async (page) => {
      const card = page.getByRole("region", { name: "Failed: Out of memory" });
      await card.getByText("memory limit (128 MiB) was exceeded").waitFor();
      await card.getByText("out of memory, limit 128 MiB").waitFor();
      await card.getByRole("link", { name: "Worker 1" }).waitFor();
      expect(await card.getByRole("link", { name: "Metrics" }).getAttribute("href")).toContain("/metrics?at=2");
      await page.getByRole("option", { name: /^Worker 1, Failed/ }).waitFor();
      await card.getByRole("button", { name: "Run again with 256 MiB of memory per Worker" }).click();
      await page.waitForURL(/train-clone-1$/);
      await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 40_000 });
      await page.getByRole("link", { name: "Compare all" }).click();
      await page.getByRole("heading", { name: "Compare jobs" }).waitFor();
      const outcome = page.getByRole("grid", { name: "Outcome" });
      await outcome.waitFor();
      expect(
        await outcome
          .getByRole("row", { name: /^State/ })
          .getByRole("gridcell")
          .allTextContents(),
      ).toEqual(["Failed", "Succeeded"]);
      const configuration = page.getByRole("grid", { name: "Configuration" });
      expect(await configuration.getByRole("row").count()).toBe(2);
      const memory = configuration.getByRole("row", { name: /resources.limits.memory/ });
      expect(await memory.getByRole("gridcell").allTextContents()).toEqual(["128Mi", "256Mi"]);
      await inspectThemes(page, "compare");
    });
  });

  test("is found, mended and compared by keyboard alone", async () => {
    const namespace = createNamespace("memory-keys");
    await createOutOfMemory(namespace, "train");
    await visit(`/jobs?namespace=${namespace}`, {}, async (page) => {
      await page.getByText("1 job", { exact: true }).waitFor();
      await tabTo(page, /^train$/);
      await page.keyboard.press("Enter");
      await page.getByRole("region", { name: "Failed: Out of memory" }).waitFor();
      await tabTo(page, "Run again with 256 MiB of memory per Worker");
      await page.keyboard.press("Enter");
      await page.waitForURL(/train-clone-1$/);
      await page.getByRole("status").getByText("Succeeded").waitFor({ timeout: 40_000 });
      await tabTo(page, "Compare all");
      await page.keyboard.press("Enter");
      await page.getByRole("grid", { name: "Outcome" }).waitFor();
    });
  });

  test("may get another value, which the service checks before anything is created", async () => {
    const namespace = createNamespace("value");
    await createOutOfMemory(namespace, "train");
    await visit(address(namespace, "train"), {}, async (page) => {
      await page.getByRole("button", { name: "Other value…" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText("The cluster would accept it, as train-clone-1").waitFor();
      await dialog.getByLabel("Memory per Worker").fill("lots");
      await dialog.getByText("lots").first().waitFor();
      await dialog.getByText("The cluster would accept it").waitFor({ state: "detached" });
      await inspectThemes(page, "job-fix-refused");
      await dialog.getByLabel("Memory per Worker").fill("1Gi");
      await dialog.getByLabel("Name", { exact: true }).fill("train-more");
      await dialog.getByText("The cluster would accept it, as train-more").waitFor();
      await dialog.getByRole("button", { name: "Create Job" }).click();
      await page.waitForURL(/train-more$/);
      await page.getByText("Copied from").waitFor();
    });
  });

  test("leads to the line of the log that says so", async () => {
    const namespace = createNamespace("evidence");
    await createOutOfMemory(namespace, "train");
    await visit(address(namespace, "train"), {}, async (page) => {
      await page.getByRole("link", { name: "View full logs" }).click();
      const line = page.locator(".log-evidence");
      await line.getByText("killed by the kernel").waitFor();
      await page.getByText("End of the log").waitFor();
      // The moment of that line is shown in the list of events, and the address keeps it.
      const top = async () => (await page.getByRole("region", { name: "Log", exact: true }).boundingBox())?.y;
      const before = await top();
      await line.getByRole("button", { name: /^[\d:.]+: choose this moment$/ }).click();
      await page.getByRole("link", { name: "Events at this moment" }).waitFor();
      expect(await top(), "what is clicked stays where it is").toBe(before);
      await page.getByRole("link", { name: "Events at this moment" }).click();
      await page.locator("tr.job-marked").waitFor();
      await page.reload();
      await page.locator("tr.job-marked").waitFor();
    });
  });
});

describe("a hostile log", () => {
  // Open MPI 4 loses lines that are shorter than the 18 characters of its tag, when many come at once.
  const program = String.raw`
import os, time
if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
    print("\x1b[31mred\x1b[0m \x1b]0;title\x07<img src=x onerror=alert(1)><script>window.hacked = 1</script>", flush=True)
    print("invoice\u202efdp.exe", flush=True)
    print("a" * 1_500_000 + "END", flush=True)
    print("ERROR: \x00 broken", flush=True)
    for line in range(60_000): print(f"line {line} of a long output")
    print("last line", flush=True)
    time.sleep(600)
`;

  test("executes nothing, hides nothing and does not freeze the page", { timeout: 360_000 }, async () => {
    const namespace = createNamespace("hostile");
    await createJob(namespace, { name: "hostile", command: ["python3", "-c", program] });
    await waitForJob(namespace, "hostile", "Running");
    await visit(`${address(namespace, "hostile")}/logs?whole=true`, {}, async (page) => {
      const log = page.getByRole("region", { name: "Log", exact: true });
      await page.evaluate(() => {
        const found = window as unknown as { longest: number };
        found.longest = 0;
        new PerformanceObserver((list) => {
          for (const task of list.getEntries()) found.longest = Math.max(found.longest, task.duration);
        }).observe({ type: "longtask" });
      });
      await log.getByText("last line").waitFor({ timeout: 150_000 });
      expect(await page.locator(".log-line").count()).toBeLessThan(100);
      // A machine that runs other tests too multiplies what takes 100 ms alone.
      expect(await page.evaluate(() => (window as unknown as { longest: number }).longest)).toBeLessThan(5_000);

      await log.focus();
      await page.keyboard.press("Home");
      await log.getByText("red <img src=x onerror=alert(1)><script>window.hacked = 1</script>").waitFor();
      await log.getByText("invoice‹U+202E›fdp.exe").waitFor();
      await log.getByText("ERROR: ␀ broken").waitFor();
      expect(await page.evaluate(() => "hacked" in window)).toBe(false);
      expect(await log.locator("img, script").count()).toBe(0);

      await log
        .getByRole("button", { name: /more characters/ })
        .first()
        .click();
      const dialog = page.getByRole("dialog", { name: "The whole line" });
      await dialog.waitFor();
      await inspectThemes(page, "job-whole-line");
      await dialog.getByText("Close", { exact: true }).click();

      // What was scrolled to stays in view; the page says that it does not follow.
      expect(await page.getByLabel("Follow").isChecked()).toBe(false);
      const [download] = await Promise.all([
        // It is offered once the whole log was read again.
        page.waitForEvent("download", { timeout: 90_000 }),
        page.getByRole("button", { name: "Download" }).click(),
      ]);
      expect(download.suggestedFilename()).toBe("hostile.log");
    });
  });
});

describe("the page of a job", () => {
  test("passes every rule of axe on every tab, in every theme", { timeout: 240_000 }, async () => {
    const namespace = createNamespace("tabs");
    await createOutOfMemory(namespace, "failed");
    await createJob(namespace, { name: "greedy", workers: 2, gpus: 64 });
    await createJob(namespace, { name: "paused", suspend: true });
    await createJob(namespace, { name: "runs", workers: 2 });
    await waitForJob(namespace, "runs", "Running");
    for (const theme of themes) {
      await visit(address(namespace, "failed"), { theme }, async (page) => {
        for (const tab of tabs) {
          await page.getByRole("tab", { name: tab }).click();
          await page.getByRole("tabpanel", { name: tab }).waitFor();
          await expect.poll(() => page.locator(".app-loading").count()).toBe(0);
          await inspect(page, `job-${tab.toLowerCase()}-${theme}`);
        }
      });
      await look(namespace, "greedy", theme, "Waiting: Unschedulable");
      await look(namespace, "paused", theme, "Suspended");
      await look(namespace, "runs", theme, "Your program runs");
    }
  });

  async function look(namespace: string, name: string, theme: Theme, text: string): Promise<void> {
    for (const width of [1280, 390]) {
      await visit(address(namespace, name), { theme, width }, async (page) => {
        await page.getByText(text).first().waitFor();
        await inspect(page, `job-${name}-${width < 500 ? "phone-" : ""}${theme}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow).toBeLessThanOrEqual(0);
      });
    }
  }

  test("shows a change within a second or so, and suspends and resumes", async () => {
    const namespace = createNamespace("change");
    await createJob(namespace, { name: "job", suspend: true });
    await visit(address(namespace, "job"), {}, async (page) => {
      await page.getByRole("button", { name: "Resume" }).click();
      await page.getByRole("status").getByText("Running").waitFor();
      await page.getByRole("button", { name: "Actions", exact: true }).click();
      await page.getByRole("menuitem", { name: "Suspend" }).click();
      await page.getByRole("heading", { name: "Suspended", exact: true }).waitFor();
    });
  });

  test("fills the screen with the log and its menus, and comes back", async () => {
    const namespace = createNamespace("full");
    await createJob(namespace, { name: "talks", command: ["sh", "-c", "seq 200; sleep 600"] });
    await waitForJob(namespace, "talks", "Running");
    await visit(`${address(namespace, "talks")}/logs`, {}, async (page) => {
      const log = page.locator(".log-view");
      await log.getByText("200", { exact: true }).waitFor();
      const height = async () => (await log.boundingBox())?.height ?? 0;
      const before = await height();
      await page.getByRole("button", { name: "Full screen" }).click();
      await expect.poll(height).toBeGreaterThan(before + 200);
      expect(await page.getByRole("heading", { level: 1 }).isVisible()).toBe(false);
      await page.getByRole("button", { name: "Options" }).click();
      await page.getByText("Wrap lines").waitFor();
      await inspectThemes(page, "log-full-screen", "main");
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "Leave full screen" }).click();
      await expect.poll(height).toBe(before);
      expect(await page.getByRole("heading", { level: 1 }).isVisible()).toBe(true);
    });
  });

  test("says that someone else deleted the job, and still shows it", async () => {
    const namespace = createNamespace("gone");
    await createJob(namespace, { name: "job", suspend: true });
    await visit(address(namespace, "job"), {}, async (page) => {
      await page.getByRole("heading", { name: "Suspended", exact: true }).waitFor();
      await ask("DELETE", `/api/v1/namespaces/${namespace}/jobs/mpijob/job`);
      await page.getByText("job was deleted").waitFor();
      expect(await page.getByRole("button", { name: "Actions", exact: true }).count()).toBe(0);
      await page.getByRole("heading", { name: "Steps" }).waitFor();
      await inspectThemes(page, "job-deleted");
    });
  });

  test("asks before it deletes, and names the job", async () => {
    const namespace = createNamespace("delete");
    await createJob(namespace, { name: "precious", suspend: true });
    await visit(address(namespace, "precious"), {}, async (page) => {
      await page.getByRole("button", { name: "Actions", exact: true }).click();
      await page.getByRole("menuitem", { name: "Delete" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText(`${namespace}/precious`).waitFor();
      await dialog.getByRole("button", { name: "Delete" }).click();
      await page.waitForURL("**/jobs");
      await page.getByText("Deleting 1 job").waitFor();
      expect(await page.getByText("Someone deleted").count()).toBe(0);
      await expect.poll(() => page.evaluate(() => document.activeElement?.textContent)).toBe("Jobs");
    });
  });

  test("cancels a job after asking, and keeps its record", async () => {
    const namespace = createNamespace("cancel");
    await createJob(namespace, { name: "endless" });
    await waitForJob(namespace, "endless", "Running");
    await visit(address(namespace, "endless"), {}, async (page) => {
      await page.getByRole("button", { name: "Actions", exact: true }).click();
      await page.getByRole("menuitem", { name: "Cancel" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByText(`${namespace}/endless`).waitFor();
      await inspectThemes(page, "job-cancel");
      await dialog.getByRole("button", { name: "Cancel the job" }).click();
      await page.getByRole("heading", { name: "Cancelled 1 job" }).waitFor();
      await page.getByRole("region", { name: /^Cancelled/ }).waitFor();
      // A person wanted it so: nothing is red.
      const red = page.locator("main").locator(".pf-m-red, .pf-m-danger, .job-cell-failed");
      await page.getByRole("status").getByText("Cancelled", { exact: true }).waitFor();
      expect(await red.count()).toBe(0);
      // It has ended: it can only be run again or deleted.
      await page.getByRole("button", { name: "Actions", exact: true }).click();
      const item = page.getByRole("menuitem", { name: "Cancel" });
      expect(await item.getAttribute("aria-disabled")).toBe("true");
      await page.keyboard.press("Escape");
      await page.getByRole("link", { name: namespace, exact: true }).click();
      await page
        .getByRole("row", { name: /^Select endless/ })
        .getByText("Cancelled", { exact: true })
        .waitFor();
      expect(await red.count()).toBe(0);
    });
  });

  test("of a job whose Launcher is tried again says why, which attempt is next, and when", async () => {
    const namespace = createNamespace("retry");
    await createJob(namespace, { name: "again", command: ["false"], retries: 3, suspend: true });
    await visit(address(namespace, "again"), {}, async (page) => {
      // The page is there before the program fails: the second attempt begins ten seconds later.
      await page.getByRole("button", { name: "Resume" }).click();
      const state = page.getByRole("status").getByText(/^Retrying \(\w+\)$/);
      await state.waitFor({ timeout: 60_000 });
      const card = page.getByRole("region", { name: /^Retrying: / });
      await card.getByText(/attempt 2 of 4 of the Launcher/).waitFor();
      await page.getByRole("link", { name: namespace, exact: true }).click();
      const row = page.getByRole("row", { name: /^Select again/ });
      await row.getByText(/^Retrying \(\w+\)$/).waitFor();
      await row.getByTitle(/attempt \d of 4 of the Launcher/).waitFor();
      await ask("DELETE", `/api/v1/namespaces/${namespace}/jobs/mpijob/again`);
    });
  });

  test("tells a person of another team only that there is no permission", async () => {
    const own = createNamespace("own");
    const other = createNamespace("other");
    const token = createMember(own);
    await createJob(other, { name: "secret", suspend: true });
    await visit(address(other, "secret"), { token }, async (page) => {
      await page.getByRole("heading", { name: "You have no permission for this" }).waitFor();
      await inspectThemes(page, "job-forbidden");
    });
  });

  test("says that a permission or the sign-in ended meanwhile, and keeps what it showed", async () => {
    const namespace = createNamespace("revoked");
    const token = createMember(namespace);
    await createJob(namespace, { name: "stays", suspend: true });
    await visit(address(namespace, "stays"), { token }, async (page) => {
      await page.getByText("Suspended").first().waitFor();
      kubectl("-n", namespace, "delete", "rolebinding", "member");
      // A decision holds for ten seconds, and the page asks every five.
      await page.getByText(/lacks 'get' permission for MPIJobs/).waitFor({ timeout: 40_000 });
      await page.getByRole("heading", { level: 1, name: "stays" }).waitFor();
      await inspectThemes(page, "job-revoked");
      kubectl("-n", namespace, "delete", "serviceaccount", "member");
      const signIn = page.getByRole("link", { name: "Sign in" }).first();
      await signIn.waitFor({ timeout: 90_000 });
      expect(await signIn.getAttribute("href")).toContain(encodeURIComponent(address(namespace, "stays")));
      await inspectThemes(page, "job-signed-out");
    });
  });

  test("does not offer what the person may not do", async () => {
    const namespace = createNamespace("viewer");
    await createOutOfMemory(namespace, "train");
    kubectl("-n", namespace, "create", "serviceaccount", "viewer");
    kubectl(
      "-n",
      namespace,
      "create",
      "role",
      "viewer",
      "--verb=get,list,watch",
      "--resource=mpijobs.kubeflow.org,pods,pods/log,events",
    );
    kubectl(
      "-n",
      namespace,
      "create",
      "rolebinding",
      "viewer",
      "--role=viewer",
      `--serviceaccount=${namespace}:viewer`,
    );
    const token = kubectl("-n", namespace, "create", "token", "viewer").trim();
    await visit(address(namespace, "train"), { token }, async (page) => {
      const fix = page.getByRole("button", { name: "Run again with 256 MiB of memory per Worker" });
      await expect.poll(() => fix.getAttribute("aria-disabled")).toBe("true");
      await page.getByText("You have no permission for this in the namespace").waitFor();
      await inspectThemes(page, "job-viewer");
    });
  });
});

describe("metrics", () => {
  const program = `
import time
for epoch in range(90):
    print(f"epoch {epoch} loss={1 / (epoch + 1):.4f}", flush=True)
    time.sleep(1)
`;

  test("are charts with one moment, which the log shows too", async () => {
    const namespace = createNamespace("metrics");
    await createJob(namespace, { name: "learns", command: ["python3", "-c", program] });
    await waitForJob(namespace, "learns", "Running");
    await visit(`${address(namespace, "learns")}/metrics`, {}, async (page) => {
      await page.getByRole("img", { name: /^Loss: Last value: 0\.[0-3]/ }).waitFor({ timeout: 40_000 });
      // The slider is the keyboard's way to a moment.
      await page.getByRole("slider", { name: "Moment" }).focus();
      await page.keyboard.press("ArrowLeft");
      await page.getByRole("img", { name: /^Loss: [\d:]+\.000: [01]/ }).waitFor();
      await expect.poll(() => page.getByRole("heading", { level: 2 }).first().textContent()).toBe("Loss");
      // The node counts the network traffic of pods; the job has no GPUs, so nothing is missing then.
      await page.getByRole("img", { name: /^Network received: / }).waitFor({ timeout: 60_000 });
      await page.getByRole("heading", { name: "Network sent" }).waitFor();
      expect(await page.getByRole("heading", { name: "Figures without a chart" }).count()).toBe(0);
      await inspectThemes(page, "job-charts");
      // How the curves are looked at is chosen by keyboard, and kept by the address.
      await tabTo(page, "From");
      await page.keyboard.press("ArrowRight");
      await tabTo(page, "Steps");
      await page.keyboard.press("Enter");
      await tabTo(page, /Smoothing of training curves/);
      await page.keyboard.type("Smoothed by 0.6");
      await tabTo(page, "Logarithmic");
      await page.keyboard.press("Space");
      const kept = () => Object.fromEntries(new URL(page.url()).searchParams);
      await expect.poll(() => kept().range).toMatch(/Z\/$/);
      await expect.poll(kept).toMatchObject({ x: "step", y: "log", smooth: "0.6" });
      await page.reload();
      await expect.poll(() => page.getByRole("switch", { name: "Logarithmic" }).isChecked()).toBe(true);
      await page.getByRole("img", { name: /^Loss: / }).waitFor();
      await inspectThemes(page, "job-charts-steps");
      await page.getByRole("button", { name: "Show all" }).click();
      await expect.poll(() => page.url()).not.toContain("range=");
      // A part of the axis is chosen by dragging, too.
      const loss = await page
        .getByRole("img", { name: /^Loss: / })
        .locator(".u-over")
        .boundingBox();
      if (!loss) throw new Error("no chart");
      await page.mouse.move(loss.x + loss.width * 0.2, loss.y + 40);
      await page.mouse.down();
      await page.mouse.move(loss.x + loss.width * 0.8, loss.y + 40, { steps: 4 });
      await page.mouse.up();
      await expect.poll(() => page.url()).toContain("range=");
      await page.getByRole("link", { name: "Logs at this moment" }).click();
      await page.locator(".log-chosen").getByText("epoch").waitFor();
    });
  });
});

test("what several runs report is compared in one chart", async () => {
  const namespace = createNamespace("runs");
  const program = (rate: number) => `
import time
for step in range(40):
    print(f"step {step} loss={${rate} / (step + 1):.4f}", flush=True)
    time.sleep(0.3)
`;
  for (const [name, rate] of [
    ["fast", 1],
    ["slow", 3],
  ] as const)
    await createJob(namespace, { name, command: ["python3", "-c", program(rate)] });
  for (const name of ["fast", "slow"]) await waitForJob(namespace, name, "Succeeded");
  await visit(`/compare?namespace=${namespace}&kind=mpijob&name=fast&name=slow`, {}, async (page) => {
    await page.getByRole("img", { name: /^Loss: Last value: fast 0\.03 \(lowest\), slow 0\.08 \(highest\)/ }).waitFor();
    expect(await page.getByRole("button", { name: "Steps" }).getAttribute("aria-pressed")).toBe("true");
    await inspectThemes(page, "compare-runs");
    await page.getByRole("button", { name: "Time since the first value" }).click();
    await expect.poll(() => page.url()).toContain("x=time");
  });
});

// Last: so many processes slow down everything beside them.
describe("100 Workers", () => {
  const program = `
import os, time
rank = os.environ["OMPI_COMM_WORLD_RANK"]
print("all ranks write this", flush=True)
for step in range(100):
    if rank == "42" and step == 3: print("WARNING: rank 42 is slow", flush=True)
    if rank == "0": print(f"step {step} loss={1 / (step + 1):.3f}", flush=True)
    time.sleep(600 if step == 5 else 0.2)
`;

  test("are watched in a grid and searched in their log, by keyboard alone", { timeout: 240_000 }, async () => {
    const namespace = createNamespace("hundred");
    const command = ["mpirun", "--tag-output", "python3", "-c", program];
    await createJob(namespace, { name: "wide", workers: 100, command, inLauncher: true });
    onTestFinished(() => ask("DELETE", `/api/v1/namespaces/${namespace}/jobs/mpijob/wide?force=true`).then(() => {}));
    await visit(address(namespace, "wide"), {}, async (page) => {
      const cells = page.getByRole("option");
      await expect.poll(() => cells.count()).toBe(100);
      await page.getByText("100/100 Running").waitFor({ timeout: 120_000 });
      await page.getByText("100 running", { exact: true }).waitFor();
      await inspectThemes(page, "job-hundred");

      // One stop for the keyboard, arrow keys within.
      await tabTo(page, /^Worker 0,/);
      await page.keyboard.press("End");
      await page.keyboard.press("ArrowLeft");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { name: "wide-worker-98" }).waitFor();
      expect(await page.getByRole("option", { selected: true }).getAttribute("aria-label")).toContain("Worker 98");

      await tabTo(page, "Overview", "Shift+Tab");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
      await tabTo(page, "Find by name, node or state");
      await page.keyboard.type("worker-7");
      await expect.poll(() => page.locator("tbody").count()).toBe(11);

      await tabTo(page, "Workers", "Shift+Tab");
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("Enter");
      const log = page.getByRole("region", { name: "Log", exact: true });
      await log.getByText("step 4 loss").waitFor({ timeout: 60_000 });
      // What all ranks write is one line.
      await log
        .getByRole("button", { name: /and \d+ more/ })
        .first()
        .waitFor();
      await tabTo(page, "Search all lines");
      await page.keyboard.type("rank \\d+ is slow");
      await tabTo(page, "Regular expression");
      await page.keyboard.press("Enter");
      await log.locator("mark").getByText("rank 42 is slow").waitFor();
      await expect.poll(() => page.locator(".log-line").count()).toBe(1);
      await inspectThemes(page, "job-search");
      await page.reload();
      await log.locator("mark").getByText("rank 42 is slow").waitFor();
      expect(page.url()).toContain("regex=true");
    });
  });
});
