// Files of a job's volumes: looked at and downloaded through a running pod, however hostile their names and contents are.

import { readFileSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  ask,
  claim,
  createJob,
  createNamespace,
  createObject,
  inspect,
  inspectThemes,
  kubectl,
  openBrowser,
  tabTo,
  themes,
  visit,
  waitForJob,
} from "./stage";

openBrowser();

const program = `
import os, struct, sys, time, zlib
os.makedirs("/results/run-1/checkpoints", exist_ok=True)
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
rows = b"".join(b"\\0" + bytes(value for x in range(240) for value in (x, y, 120)) for y in range(160))
picture = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 240, 160, 8, 2, 0, 0, 0))
picture += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
files = {
    b"metrics.txt": b"epoch 0 loss=1.0\\nepoch 1 loss=0.5\\n",
    b"curve.png": picture,
    b"page.html": b"<script>window.hacked = 1</script><img src=x onerror=alert(1)>",
    b"model.npz": bytes(range(256)) * 4096,
    b"<img src=x onerror=alert(2)>\\xff\\xe2\\x80\\xaegnp.exe": b"\\x1b[31mred",
}
for name, content in files.items():
    open(b"/results/" + name, "wb").write(content)
os.symlink("/etc/passwd", "/results/to-passwd")
print("written", flush=True)
time.sleep(float(sys.argv[1]))
`;

async function createWriter(namespace: string, name: string, seconds: number): Promise<void> {
  createObject(namespace, claim("results"));
  const command = ["python3", "-c", program, String(seconds)];
  await createJob(namespace, { name, command, inLauncher: true, volumes: { results: "/results" } });
  const path = `/api/v1/namespaces/${namespace}/jobs/mpijob/${name}`;
  // A test may have deleted it.
  onTestFinished(() => void ask("DELETE", path).catch(() => {}));
}

type Listing = { artifacts: { name: string }[] };

async function written(namespace: string, name: string): Promise<void> {
  await waitForJob(namespace, name, "Running");
  const path = `/api/v1/namespaces/${namespace}/jobs/mpijob/${name}/artifacts?path=/results`;
  const names = async () => (await ask<Listing>("GET", path)).artifacts.map((one) => one.name);
  await expect.poll(names, { timeout: 30_000 }).toContain("to-passwd");
}

describe("the files of a job", () => {
  test("are looked at in every theme, as text and pixels only", async () => {
    const namespace = createNamespace("files");
    await createWriter(namespace, "writes", 600);
    await written(namespace, "writes");
    const address = `/jobs/${namespace}/mpijob/writes/artifacts`;
    for (const theme of themes) {
      await visit(address, { theme }, async (page) => {
        await page.getByRole("link", { name: "/results" }).waitFor();
        await inspect(page, `artifacts-volumes-${theme}`);
        await page.getByRole("link", { name: "/results" }).click();
        await page.getByRole("link", { name: "metrics.txt" }).waitFor();
        await inspect(page, `artifacts-folder-${theme}`);
        await page.getByRole("link", { name: "page.html" }).click();
        const dialog = page.getByRole("dialog");
        await dialog.getByText("<script>window.hacked = 1</script>").waitFor();
        await inspect(page, `artifacts-text-${theme}`);
        await dialog.getByText("Close", { exact: true }).click();
        await page.getByRole("link", { name: "curve.png" }).click();
        await dialog.getByRole("img", { name: "curve.png" }).waitFor();
        await inspect(page, `artifacts-image-${theme}`);
        expect(await page.evaluate(() => "hacked" in window)).toBe(false);
        expect(await page.locator("img[src=x]").count()).toBe(0);
      });
      await visit(`${address}?path=/results`, { theme, width: 390 }, async (page) => {
        await page.getByRole("link", { name: "metrics.txt" }).waitFor();
        await inspect(page, `artifacts-phone-${theme}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
        expect(overflow).toBeLessThanOrEqual(0);
      });
    }
  });

  test("are found and downloaded by keyboard alone, and nothing outside of the volume is", async () => {
    const namespace = createNamespace("files");
    await createWriter(namespace, "writes", 600);
    await written(namespace, "writes");
    await visit(`/jobs/${namespace}/mpijob/writes/artifacts`, {}, async (page) => {
      await page.getByRole("link", { name: "/results" }).waitFor();
      await tabTo(page, "/results");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "run-1" }).waitFor();
      await page.getByText("<img src=x onerror=alert(2)>").waitFor();
      await tabTo(page, "Download model.npz");
      const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("Enter")]);
      expect(download.suggestedFilename()).toBe("model.npz");
      const saved = readFileSync(await download.path());
      expect([saved.length, saved[255], saved[256]]).toEqual([256 * 4096, 255, 0]);

      await tabTo(page, "run-1", "Shift+Tab");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "checkpoints" }).click();
      await page.getByRole("heading", { name: "The folder is empty" }).waitFor();
      expect(new URL(page.url()).searchParams.get("path")).toBe("/results/run-1/checkpoints");
      await page.reload();
      await page.getByRole("navigation", { name: "Folder" }).getByRole("link", { name: "/results" }).click();

      await page.getByRole("link", { name: "to-passwd" }).click();
      await page.getByText("/etc/passwd is not in a volume with files of the job").waitFor();
      await inspectThemes(page, "artifacts-outside");
    });
  });

  test("are shown after the end by a pod that is started to read them", async () => {
    const namespace = createNamespace("files");
    await createWriter(namespace, "ends", 0);
    await waitForJob(namespace, "ends", "Succeeded");
    await visit(`/jobs/${namespace}/mpijob/ends/artifacts`, {}, async (page) => {
      await page.getByRole("heading", { name: "No pod of the job runs, but its claims can be read" }).waitFor();
      await page.getByText("PersistentVolumeClaim results").waitFor();
      await inspectThemes(page, "artifacts-ended");
      await page.getByRole("button", { name: "Show the files" }).click();
      await page.getByRole("link", { name: "/results" }).click();
      await page.getByText("model.npz").waitFor();
      await inspect(page, "artifacts-reader-light");
      const saved = page.waitForEvent("download");
      await page.getByRole("button", { name: "Download model.npz" }).click();
      expect((await saved).suggestedFilename()).toBe("model.npz");
    });
    // Nothing can be written there, and the pod goes with the job.
    const touch = () => kubectl("-n", namespace, "exec", "ends-reader", "--", "touch", "/results/new");
    expect(touch).toThrow(/Read-only file system/);
    await ask("DELETE", `/api/v1/namespaces/${namespace}/jobs/mpijob/ends`);
    const left = () => kubectl("-n", namespace, "get", "pods", "-o", "name");
    await expect.poll(left, { timeout: 30_000 }).toBe("");
  });

  test("need the permission to run commands in pods, which the page says at once", async () => {
    const namespace = createNamespace("files");
    await createJob(namespace, { name: "runs" });
    kubectl("-n", namespace, "create", "serviceaccount", "viewer");
    const resources = "--resource=mpijobs.kubeflow.org,pods,pods/log,events";
    kubectl("-n", namespace, "create", "role", "viewer", "--verb=get,list,watch", resources);
    const account = `--serviceaccount=${namespace}:viewer`;
    kubectl("-n", namespace, "create", "rolebinding", "viewer", "--role=viewer", account);
    const token = kubectl("-n", namespace, "create", "token", "viewer").trim();
    await visit(`/jobs/${namespace}/mpijob/runs/artifacts`, { token }, async (page) => {
      await page.getByRole("heading", { name: "You may not look into the pods" }).waitFor();
      await page.getByText(`create pods/exec in the namespace ${namespace}`).waitFor();
      await inspectThemes(page, "artifacts-forbidden");
    });
  });
});
