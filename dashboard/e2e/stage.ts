// What tests use: a browser, requests to the service, and checks that every page must pass.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { request as httpsRequest } from "node:https";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, inject, onTestFinished } from "vitest";
import { parse, stringify } from "yaml";
import { type Cluster, image } from "./cluster";

export const cluster = inject("cluster");
export const themes = ["light", "dark", "contrast"] as const;
export type Theme = (typeof themes)[number];

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const screenshots =
  process.env.DASHBOARD_SCREENSHOTS ?? join(import.meta.dirname, "../../target/dashboard-screenshots");
const patience = 20_000;

let browser: Browser;

/** Opens a browser for a file of tests. */
export function openBrowser(): void {
  beforeAll(async () => {
    const known = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser"];
    const executablePath = known.find((path) => path && existsSync(path));
    // A sandbox needs rights that containers do not give; the pages are our own.
    browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
    mkdirSync(screenshots, { recursive: true });
  });
  afterAll(() => browser.close());
}

export type Visit = {
  theme?: Theme;
  width?: number;
  token?: string;
  options?: BrowserContextOptions;
  /** Whether the browser does not know the dashboard yet: then the tour begins. */
  isFirst?: boolean;
  /** What to do with the page before it is loaded. */
  prepare?: (page: Page) => Promise<void>;
  /** Where the dashboard is; the server for its built files if not given. */
  at?: string;
};

/** A page of its own. At the end it must have reported no error of its own, and have asked nobody but the service. */
export async function visit(
  path: string,
  { theme = "light", width = 1280, token, options, isFirst = false, prepare, at = cluster.dashboard }: Visit,
  test: (page: Page) => Promise<void>,
) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    reducedMotion: "reduce",
    extraHTTPHeaders: token ? { authorization: `Bearer ${token}` } : {},
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => {
    // The browser reports each answer that is no success; pages show these.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      faults.push(message.text());
  });
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (protocol.startsWith("http") && origin !== new URL(at).origin) faults.push(`a request to ${origin}`);
  });
  page.on("dialog", (dialog) => faults.push(`a dialog: ${dialog.message()}`));
  await page.addInitScript((chosen) => localStorage.setItem("training.theme", chosen), theme);
  if (!isFirst) await page.addInitScript(() => localStorage.setItem("training.tour", "seen"));
  await prepare?.(page);
  try {
    await page.goto(at + path);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await test(page);
    expect(faults).toEqual([]);
  } catch (error) {
    await page.screenshot({ path: join(screenshots, `failed-${Date.now()}.png`) }).catch(() => {});
    throw error;
  } finally {
    await context.close();
  }
}

/** Of a browser that had a session. */
export function signedInBefore(page: Page): Promise<void> {
  return page.addInitScript(() => localStorage.setItem("training.signed-in", "yes")).then(() => {});
}

/** Presses Tab, or Shift and Tab, until what has this name has the focus. */
export async function tabTo(page: Page, name: string | RegExp, key = "Tab"): Promise<void> {
  for (let presses = 0; presses < 150; presses++) {
    await page.keyboard.press(key);
    const label = await page.evaluate(() => {
      const at = document.activeElement as HTMLInputElement | null;
      const label = at?.getAttribute("aria-label") ?? at?.labels?.[0]?.textContent ?? at?.textContent ?? "";
      return label.replace(/\s+/g, " ").trim();
    });
    if (typeof name === "string" ? label.startsWith(name) : name.test(label)) return;
  }
  throw new Error(`${key} does not lead to ${name}`);
}

// What PatternFly calls a control to which the page gave no name, and an object in place of a text.
const emptyName = /"[^"]*\b(?:row \d|all rows\b|kebab\b)|\[object /i;

// Rules of axe that pages need not keep, each with its reason. Every other rule holds, whether axe runs it by default or not.
const exceptions = {
  // 7:1, for level AAA: PatternFly's themes promise 4.5:1, and its high contrast theme is there for who needs more.
  "color-contrast-enhanced": { enabled: false },
  // Level AAA as well: a name of a job leads to its page in every table, and "Try again" to whatever failed.
  "identical-links-same-purpose": { enabled: false },
};

/** Every rule of axe, for the page or a part of it, names that say something, and a screenshot for people. */
export async function inspect(page: Page, name: string, part?: string): Promise<void> {
  // What is animated for as long as something loads never finishes.
  await page.evaluate(() => {
    const ending = document.getAnimations().filter((one) => one.effect?.getComputedTiming().endTime !== Infinity);
    return Promise.all(ending.map((one) => one.finished.catch(() => {})));
  });
  await page.screenshot({ path: join(screenshots, `${name}.png`) });
  // Evaluated by the debugger: the page's policy does not apply to it.
  await page.evaluate(axe);
  const found = await page.evaluate(
    async ({ part, exceptions }) => {
      const { axe } = window as unknown as { axe: typeof import("axe-core") };
      const all = Object.fromEntries(axe.getRules().map(({ ruleId }) => [ruleId, { enabled: true }]));
      const { violations } = await axe.run(part ?? document, { rules: { ...all, ...exceptions } });
      return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join("\n")}`);
    },
    { part, exceptions },
  );
  expect(found, name).toEqual([]);
  const tree = await page
    .locator(part ?? "body")
    .first()
    .ariaSnapshot();
  const unnamed = tree.split("\n").filter((line) => emptyName.test(line));
  expect(unnamed, `${name}: names that say nothing`).toEqual([]);
}

/** The same in every theme, without loading the page again: of a state that a page does not come back to. */
export async function inspectThemes(page: Page, name: string, part?: string): Promise<void> {
  for (const theme of [...themes.slice(1), themes[0]]) {
    await page.evaluate((theme) => {
      const { classList, style } = document.documentElement;
      classList.toggle("pf-v6-theme-dark", theme === "dark");
      classList.toggle("pf-v6-theme-high-contrast", theme === "contrast");
      style.colorScheme = theme === "dark" ? "dark" : "light";
    }, theme);
    await inspect(page, `${name}-${theme}`, part);
  }
}

/** A request to the service, past the dashboard. */
export function ask<T>(
  method: string,
  path: string,
  body?: unknown,
  token?: string,
  service: Cluster["service"] = cluster.service,
): Promise<T> {
  const ca = readFileSync(service.certificateAuthority);
  const authorization = `Bearer ${token ?? tokenOf(service)}`;
  const headers = { authorization, "content-type": "application/json" };
  return new Promise((resolve, reject) => {
    const request = httpsRequest(service.url + path, { method, ca, headers }, (response) => {
      let text = "";
      response.on("data", (part) => {
        text += part;
      });
      response.on("end", () => {
        if ((response.statusCode ?? 500) < 300) resolve(JSON.parse(text));
        else reject(new Error(`${method} ${path}: ${response.statusCode} ${text}`));
      });
    });
    request.on("error", reject);
    request.setTimeout(patience, () =>
      request.destroy(new Error(`${method} ${path}: no answer within ${patience} ms`)),
    );
    request.end(body === undefined ? undefined : JSON.stringify(body));
  });
}

export function tokenOf(service: Cluster["service"]): string {
  return readFileSync(service.token, "utf8").trim();
}

export type Spec = { name: string; workers?: number; command?: string[]; [field: string]: unknown };

export function createJob(
  namespace: string,
  { name, workers = 1, command = ["sleep", "600"], ...rest }: Spec,
): Promise<unknown> {
  return ask("POST", `/api/v1/namespaces/${namespace}/jobs`, { spec: { name, workers, image, command, ...rest } });
}

type Job = { row: { phase?: string; phaseReason?: string; cause?: string } };

export async function waitForJob(namespace: string, name: string, phase: string, timeout = 60_000): Promise<void> {
  const path = `/api/v1/namespaces/${namespace}/jobs/mpijob/${name}`;
  await expect.poll(async () => (await ask<Job>("GET", path)).row.phase, { timeout, interval: 200 }).toBe(phase);
}

export function kubectl(...args: string[]): string {
  return execFileSync(process.env.KUBECTL ?? "kubectl", ["--kubeconfig", cluster.kubeconfig, ...args], {
    encoding: "utf8",
  });
}

export function createObject(namespace: string, object: unknown, kubeconfig = cluster.kubeconfig): void {
  const args = ["--kubeconfig", kubeconfig, "-n", namespace, "create", "-f", "-"];
  execFileSync(process.env.KUBECTL ?? "kubectl", args, { input: JSON.stringify(object) });
}

/** A claim for what jobs write. */
export function claim(name: string): unknown {
  const spec = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "10Mi" } } };
  return { apiVersion: "v1", kind: "PersistentVolumeClaim", metadata: { name }, spec };
}

/** Adds a claim to the volumes of the form. */
export async function addClaim(page: Page, name: string, path: string): Promise<void> {
  const volumes = page.locator('[aria-labelledby="field-mounts-legend"]');
  await volumes.getByRole("button", { name: /^Add to / }).click();
  const last = (part: string) => volumes.locator(`[name="${part}"]`).last();
  await last("path").fill(path);
  await last("object").fill(name);
}

export function odh(...args: string[]): string {
  return execFileSync(process.env.ODH ?? "odh", [...args, "--kubeconfig", cluster.kubeconfig], { encoding: "utf8" });
}

/** A namespace of its own for each test. */
export function createNamespace(prefix: string): string {
  const name = `${prefix}-${Math.random().toString(36).slice(2, 8)}`;
  kubectl("create", "namespace", name);
  return name;
}

/** A person who may do everything with jobs in one namespace, and nothing elsewhere. Returns the token. */
export function createMember(namespace: string): string {
  kubectl("-n", namespace, "create", "serviceaccount", "member");
  kubectl(
    "-n",
    namespace,
    "create",
    "role",
    "member",
    "--verb=*",
    "--resource=mpijobs.kubeflow.org,pods,pods/log,events,resourcequotas",
  );
  kubectl("-n", namespace, "create", "rolebinding", "member", "--role=member", `--serviceaccount=${namespace}:member`);
  return kubectl("-n", namespace, "create", "token", "member").trim();
}

/** A data scientist: a person with the role `edit` in one namespace, and nothing elsewhere. Returns the token. */
export function createEditor(namespace: string, run: (...args: string[]) => string = kubectl): string {
  run("-n", namespace, "create", "serviceaccount", "editor");
  const account = `--serviceaccount=${namespace}:editor`;
  run("-n", namespace, "create", "rolebinding", "editor", "--clusterrole=edit", account);
  return run("-n", namespace, "create", "token", "editor").trim();
}

/** The kubeconfig with which a person uses the command line, until the test ends. */
export function createKubeconfig(token: string, namespace: string): string {
  const config = parse(readFileSync(cluster.kubeconfig, "utf8"));
  config.users[0].user = { token };
  config.contexts[0].context.namespace = namespace;
  const folder = mkdtempSync(join(tmpdir(), "dashboard-person-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "kubeconfig");
  writeFileSync(file, stringify(config), { mode: 0o600 });
  return file;
}
