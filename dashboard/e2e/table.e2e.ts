// The table of specifications (`openapi/specifications.yaml`), typed into the form: each makes the manifest, or has the faults, that
// the table says. A field of the contract for which the form has no control fails by its name.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Locator, Page, Response } from "playwright-core";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { joinCommand } from "../src/create/command";
import { createNamespace, openBrowser, visit } from "./stage";

openBrowser();

type Json = { [name: string]: unknown };
type Case = { case: string; spec: Json; faults?: { path: string; fault: string; fix?: string }[] };

const contract = join(import.meta.dirname, "../../openapi");
const cases: Case[] = parse(readFileSync(join(contract, "specifications.yaml"), "utf8"));
const jobs: { base: Json; changes: Json } = JSON.parse(readFileSync(join(contract, "jobs.json"), "utf8"));
const kinds: Json = { mpijob: "MPIJob", trainjob: "TrainJob", pytorchjob: "PyTorchJob", tfjob: "TFJob" };

/** Types a value where the form has its field. Returns whether the form can say it: a choice may not offer a word. */
type Say = (page: Page, at: string, value: unknown) => Promise<boolean>;

const control = (page: Page, at: string) => page.locator(`#field-${at.replaceAll(".", "-")}`);

async function fill(place: Locator, text: string): Promise<boolean> {
  await place.fill(text);
  return (await place.inputValue()) === text;
}

async function choose(place: Locator, word: string): Promise<boolean> {
  const offered = await place
    .locator("option")
    .evaluateAll((all) => all.map((one) => (one as HTMLOptionElement).value));
  const option = offered.find((one) => one.toLowerCase() === word.toLowerCase());
  if (option !== undefined) await place.selectOption(option);
  return option !== undefined;
}

const line: Say = (page, at, value) => fill(control(page, at), String(value));
const choice: Say = (page, at, value) => choose(control(page, at), String(value));
const command: Say = (page, at, value) => fill(control(page, at), joinCommand(value as string[]));
const check: Say = async (page, at, value) => {
  await control(page, at).setChecked(Boolean(value));
  return true;
};
const uncheck: Say = (page, at, value) => check(page, at, !value);

/** Adds an entry to a list, and fills in its parts. */
async function addEntry(page: Page, at: string, parts: Record<string, string>): Promise<boolean> {
  const list = page.locator(`[aria-labelledby="field-${at.replaceAll(".", "-")}-legend"]`);
  await list.getByRole("button", { name: /^Add to / }).click();
  const entry = list.locator(".app-entry").last();
  let isSaid = true;
  // The source comes first: it decides which other parts an entry has.
  for (const [part, text] of Object.entries(parts)) {
    const place = entry.locator(`[name="${part}"]`);
    if (part === "readOnly" || part === "inMemory") await place.check();
    else if (["source", "operator", "effect"].includes(part)) isSaid = (await choose(place, text)) && isSaid;
    else isSaid = (await fill(place, text)) && isSaid;
  }
  return isSaid;
}

async function addEntries(page: Page, at: string, entries: Record<string, string>[]): Promise<boolean> {
  let isSaid = true;
  for (const parts of entries) isSaid = (await addEntry(page, at, parts)) && isSaid;
  return isSaid;
}

const pairs: Say = (page, at, value) =>
  addEntries(
    page,
    at,
    Object.entries(value as Record<string, string>).map(([name, value]) => ({ name, value })),
  );

type Item = Record<string, string | boolean | number>;
const partNames: Record<string, string> = { tolerationSeconds: "seconds" };

/** The parts of an entry: the object that it names is one part, whatever its kind. */
function partsOf(item: Item, sources: readonly string[]): Record<string, string> {
  const source = sources.find((one) => item[one] !== undefined) ?? sources.at(-1);
  const parts: Record<string, string> = source ? { source } : {};
  for (const [name, value] of Object.entries(item)) {
    if (name === source) parts.object = String(value);
    else if (value !== false) parts[partNames[name] ?? name] = String(value);
  }
  return parts;
}

const list =
  (...sources: string[]): Say =>
  (page, at, value) =>
    addEntries(
      page,
      at,
      (value as Item[]).map((item) => partsOf(item, sources)),
    );
const claims: Say = (page, at, value) =>
  addEntries(
    page,
    at.replace("volumes", "mounts"),
    Object.entries(value as Record<string, string>).map(([object, path]) => ({ source: "claim", object, path })),
  );
/** Fields within a field. */
const group: Say = (page, at, value) => sayAll(page, value as Json, `${at}.`);
/** Pods of one role are placed differently only if that is checked. */
const placement: Say = async (page, at, value) => {
  if (at !== "scheduling") await control(page, at).check();
  return group(page, at, value);
};

/** Which control says which field, by the field's own name. */
const controls: Record<string, Say> = {
  name: line,
  image: line,
  command,
  inLauncher: uncheck,
  workdir: line,
  runtime: line,
  workers: line,
  gpus: line,
  cpu: line,
  memory: line,
  slots: line,
  mpi: choice,
  transport: choice,
  untagged: uncheck,
  restricted: check,
  env: pairs,
  variables: list("secret", "configMap"),
  volumes: claims,
  mounts: list("claim", "secret", "configMap", "space"),
  queue: line,
  priority: line,
  deadlineSeconds: line,
  retries: line,
  ttlSeconds: line,
  cleanPodPolicy: choice,
  minAvailable: line,
  suspend: check,
  labels: pairs,
  annotations: pairs,
  failures: group,
  workerFailure: choice,
  maxGangRestarts: line,
  startTimeout: line,
  stallTimeout: line,
  scheduling: placement,
  nodeSelector: pairs,
  tolerations: list(),
  affinity: line,
  topologySpread: line,
  scheduler: line,
  worker: group,
  launcher: group,
  limits: pairs,
  requests: pairs,
  restartPolicy: choice,
};

/** Fields that the form could not say; with the faults of the table they are expected. */
const unsaid = new Set<string>();

async function sayAll(page: Page, fields: Json, below = ""): Promise<boolean> {
  // The name is typed last: what has it has everything.
  const all = Object.entries(fields).sort(([one], [other]) => Number(one === "name") - Number(other === "name"));
  for (const [name, value] of all) {
    const say = controls[name];
    if (!say) throw new Error(`the form has no control for ${below}${name}`);
    const isThere = say === group || (await exists(page, below + name, say));
    if (!isThere || !(await say(page, below + name, value))) unsaid.add(name);
  }
  return true;
}

/** Whether the form of the kind has a control; what is folded is opened for it. */
async function exists(page: Page, at: string, say: Say): Promise<boolean> {
  if (say === placement && at === "scheduling") return true;
  const id = `field-${at.replaceAll(".", "-").replace("volumes", "mounts")}`;
  const place = page.locator(`#${id}, [aria-labelledby="${id}-legend"]`);
  const folded = page.locator(".pf-v6-c-expandable-section__toggle > [aria-expanded=false]");
  if (!(await place.count())) while (await folded.count()) await folded.first().click();
  return (await place.count()) > 0;
}

/** What the page sent to be rendered, if that is what is answered. */
function sentTo(response: Response): { spec?: Json } | undefined {
  return response.url().endsWith("/render") ? response.request().postDataJSON() : undefined;
}

/** A form that nothing was typed in, without loading the page again. */
async function begin(page: Page, namespace: string, kind: string): Promise<void> {
  await page.evaluate((address) => {
    history.pushState(null, "", address);
    dispatchEvent(new PopStateEvent("popstate"));
  }, `/create?namespace=${namespace}`);
  const choice = page.getByRole("link", { name: `Choose ${kinds[kind]}` });
  await choice.waitFor();
  // The form that is gone keeps no draft any more.
  await page.evaluate(() => sessionStorage.removeItem("training.draft"));
  await choice.click();
  await page.locator("#field-name").waitFor();
}

/** The manifest that the page got for everything that was typed. */
async function typedManifest(page: Page, spec: Json): Promise<unknown> {
  const isLast = (response: Response) => sentTo(response)?.spec?.name === spec.name;
  const rendered = page.waitForResponse(isLast, { timeout: 60_000 });
  // A case that cannot be typed completely does not wait for it.
  rendered.catch(() => {});
  await sayAll(page, spec);
  const { manifest } = (await (await rendered).json()) as { manifest: string };
  return parse(manifest);
}

/** A change of JSON (RFC 7396). */
function patched(value: unknown, patch: unknown): unknown {
  if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
  const result: Json = typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value } : {};
  for (const [name, one] of Object.entries(patch)) {
    if (one === null) delete result[name];
    else result[name] = patched(result[name], one);
  }
  return result;
}

const plain = (text: string) => text.toLowerCase().replace(/[^a-z]/g, "");

/** Asks for the job to be created, which is refused, and compares what the page shows with the faults of the table. */
async function findFaults(page: Page, { spec, faults = [] }: Case): Promise<void> {
  await sayAll(page, spec);
  const isUnsaid = ({ path }: { path: string }) => [...unsaid].some((name) => plain(path).includes(plain(name)));
  for (const name of unsaid)
    expect(faults.map(({ path }) => plain(path)).join(), `the form cannot say ${name}`).toContain(plain(name));
  const expected = faults
    .filter((fault) => !isUnsaid(fault))
    .map(({ fault, fix }) => (fix ? `${fault}: ${fix}` : fault));
  if (!expected.length) return;
  await page.getByRole("button", { name: "Create Job" }).click();
  const shown = page.locator("[id$='-fault'] .pf-v6-c-helper-text__item-text bdi, .app-faults li bdi");
  const texts = async () =>
    (await shown.allTextContents()).map((text) => expected.find((one) => text.endsWith(one)) ?? text).sort();
  await expect.poll(texts).toEqual(expected.sort());
}

test("every case of the table makes the same job, or has the same faults, when it is typed into the form", async () => {
  const namespace = createNamespace("table");
  const wrong: string[] = [];
  await visit(`/create?namespace=${namespace}`, {}, async (page) => {
    // The browser shows the body of a request only if somebody stands in its way. One that the page gave up is gone.
    await page.route("**/render", (route) => route.continue().catch(() => {}));
    for (const one of cases) {
      const { kind = "mpijob", ...spec } = one.spec;
      unsaid.clear();
      // A kind that does not exist cannot be chosen.
      if (!kinds[String(kind)]) {
        expect(one.faults?.[0]?.path, one.case).toBe("kind");
        continue;
      }
      try {
        await begin(page, namespace, String(kind));
        if (one.faults) await findFaults(page, { ...one, spec });
        else {
          const expected = patched(jobs.base, jobs.changes[one.case] ?? {});
          expect(await typedManifest(page, spec)).toEqual(expected);
          expect([...unsaid], "the form cannot say").toEqual([]);
        }
      } catch (error) {
        wrong.push(`${one.case}: ${error instanceof Error ? error.message : error}`);
      }
    }
  });
  expect(wrong.join("\n\n")).toBe("");
}, 900_000);
