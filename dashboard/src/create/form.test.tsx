import { cleanup, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useCallback, useState } from "react";
import { expect, test, vi } from "vitest";
import type { Choices, Gpus } from "../api/choices";
import type { NamespacesOfNew } from "../shell/namespace";
import type { Fields } from "./fields";
import { JobForm } from "./form";
import { FormProvider } from "./form-context";
import { hardwareOf } from "./hardware";
import { leadTo } from "./lead";
import { beginWithKind, changeFields, type Model, typeCommand } from "./model";
import { offersOf } from "./offers";

// The whole form is rendered with each key, which takes long where many tests run at once.
vi.setConfig({ testTimeout: 20_000 });

type PageProps = {
  begin: Fields;
  onFields: (fields: Fields, blocked: unknown) => void;
  form?: string;
  choices?: Choices;
  gpus?: Gpus;
  namespaces?: NamespacesOfNew;
};

/** The form with the fields that it changes, as the page holds them. */
function Page({ begin, onFields, form, ...answers }: PageProps) {
  const [model, setModel] = useState<Model>({ ...beginWithKind("mpijob"), fields: begin, isUnread: false });
  const { fields = {}, typed } = model;
  const [blocked, setBlocked] = useState<Record<string, string | undefined>>({});
  const block = useCallback((path: string, why: string | undefined) => {
    setBlocked((before) => (before[path] === why ? before : { ...before, [path]: why }));
  }, []);
  onFields(fields, blocked);
  const gpus = { data: answers.gpus, error: null };
  const choices = { data: answers.choices, error: null };
  const offers = offersOf(choices, gpus);
  const hardware = hardwareOf(choices);
  const namespaces = answers.namespaces ?? { names: undefined, isPartial: false };
  const common = { faults: new Map(), namespace: "team", onNamespace: () => {}, advice: undefined };
  const why = Object.keys(blocked).filter((path) => blocked[path]);
  return (
    <FormProvider
      value={{
        ...common,
        offers,
        hardware,
        namespaces,
        gpus,
        fields,
        typed,
        block,
        blocked: why,
        change: (update) => setModel((model) => changeFields(model, update)),
        typeCommand: (text) => setModel((model) => typeCommand(model, text)),
      }}
    >
      <JobForm key={form} />
    </FormProvider>
  );
}

function open(begin: Fields = {}, answers: Pick<PageProps, "choices" | "gpus" | "namespaces"> = {}) {
  const onFields = vi.fn();
  const { rerender } = render(<Page begin={begin} onFields={onFields} {...answers} />);
  return {
    /** The same job in a form that is opened again. */
    openAgain: () => rerender(<Page begin={begin} onFields={onFields} form="again" />),
    fields: () => onFields.mock.lastCall?.[0] as Fields,
    blocked: () => onFields.mock.lastCall?.[1] as Record<string, string | undefined>,
  };
}

const command = () => screen.getByLabelText<HTMLTextAreaElement>(/^Command/);

test("a command with an open quote stays as it was typed, and the field reports it", async () => {
  const { fields, blocked, openAgain } = open();
  await userEvent.click(command());
  await userEvent.paste("python 'a");
  await userEvent.tab();
  openAgain();
  expect(command().value).toBe("python 'a");
  expect(screen.getByText(/A quotation mark is not closed/)).toBeTruthy();
  expect(blocked().command).toBeTruthy();
  await userEvent.click(command());
  await userEvent.paste(" b'");
  await userEvent.tab();
  expect(command().value).toBe("python 'a b'");
  expect(screen.queryByText(/A quotation mark is not closed/)).toBeNull();
  expect([fields().command, blocked().command]).toEqual([["python", "a b"], undefined]);
});

test("a pasted script keeps its lines, and a shell runs it after one click", async () => {
  const { fields, openAgain } = open();
  const script = "set -e\ncd  /work && python train.py | tee log";
  await userEvent.click(command());
  await userEvent.paste(script);
  await userEvent.tab();
  openAgain();
  expect(command().value).toBe(script);
  const hint = screen.getByText(/No shell runs the command/);
  expect(hint.textContent).toContain("The program gets these as plain text: && | All lines become one command.");
  await userEvent.click(screen.getByRole("button", { name: "Run it with sh -c" }));
  expect(fields().command).toEqual(["sh", "-c", script]);
  expect([command().value, document.activeElement]).toEqual([`sh -c '${script}'`, command()]);
  expect(screen.queryByText(/No shell runs the command/)).toBeNull();
});

test("a text that is no number stays, with what is wrong with it", async () => {
  const { fields, blocked } = open({ workers: 2 });
  const workers = screen.getByRole<HTMLInputElement>("textbox", { name: /Number of Workers/ });
  await userEvent.clear(workers);
  await userEvent.type(workers, "many");
  await userEvent.tab();
  expect([workers.value, fields().workers]).toEqual(["many", "many"]);
  expect(screen.getByText("“many” is not a whole number")).toBeTruthy();
  expect(blocked().workers).toBeTruthy();
});

test("a whole number goes up and down by buttons and arrow keys, and an empty one stays empty", async () => {
  const { fields } = open({ workers: 2 });
  const less = screen.getByRole("button", { name: "Number of Workers: one less" });
  await userEvent.click(less);
  await userEvent.click(less);
  expect([fields().workers, less.getAttribute("aria-disabled"), document.activeElement]).toEqual([1, "true", less]);
  const workers = screen.getByLabelText<HTMLInputElement>(/^Number of Workers/, { selector: "input" });
  await userEvent.type(workers, "0{ArrowUp}{ArrowUp}{ArrowDown}");
  expect([workers.value, fields().workers]).toEqual(["11", 11]);
  const slots = screen.getByLabelText<HTMLInputElement>(/^Slots per Worker/, { selector: "input" });
  await userEvent.click(slots);
  await userEvent.tab();
  expect([slots.value, fields().slots]).toEqual(["", undefined]);
  await userEvent.click(screen.getByRole("button", { name: "Slots per Worker: one more" }));
  expect([slots.value, fields().slots]).toEqual(["1", 1]);
});

test("memory without a unit asks what it means, and one click takes the answer", async () => {
  const { fields } = open({ launcher: { limits: { memory: "512" } } });
  const memory = screen.getByLabelText<HTMLInputElement>(/^Memory per Worker/);
  await userEvent.type(memory, "16");
  expect(screen.getByText("16 GiB?")).toBeTruthy();
  await userEvent.click(screen.getByRole("button", { name: "Use 16Gi" }));
  expect([memory.value, fields().memory, document.activeElement]).toEqual(["16Gi", "16Gi", memory]);
  expect(screen.queryByText("16 GiB?")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Only the Launcher" }));
  await userEvent.click(screen.getByRole("button", { name: "Use 512Mi" }));
  expect(fields().launcher?.limits).toEqual({ memory: "512Mi" });
});

test("a volume is no scratch space until somebody chose that", async () => {
  const { fields, blocked } = open();
  await userEvent.click(screen.getByRole("button", { name: "Add to Volumes" }));
  await userEvent.type(screen.getByLabelText("Volumes 1, Mount path"), "/data");
  expect([fields().mounts, blocked().mounts]).toEqual([undefined, "Entry 1 does not name its source"]);
  await userEvent.type(screen.getByLabelText("Volumes 1, Name of the source"), "data");
  expect([fields().mounts, blocked().mounts]).toEqual([[{ path: "/data", claim: "data" }], undefined]);
});

test("what is different for a role is in a section of its own, and gone for a kind without that role", async () => {
  const { fields } = open({ launcher: { limits: { cpu: "1" } } });
  await userEvent.click(screen.getByRole("button", { name: "Only the Launcher" }));
  const amount = screen.getByLabelText<HTMLInputElement>("Limits (Launcher) 1, Amount");
  expect(amount.value).toBe("1");
  await userEvent.click(screen.getByRole("checkbox", { name: /Place these pods differently/ }));
  expect(fields().launcher).toEqual({ limits: { cpu: "1" }, scheduling: {} });
});

test("a section with a text that cannot be sent is open, and the first faulty field gets the focus", async () => {
  open({ workers: 2 });
  await userEvent.click(screen.getByRole("button", { name: "Show advanced options" }));
  await userEvent.type(screen.getByRole("textbox", { name: /^Retries/ }), "few");
  await userEvent.click(screen.getByRole("button", { name: "Hide advanced options" }));
  leadTo(["retries"]);
  expect(document.activeElement).toBe(screen.getByRole("textbox", { name: /^Retries/ }));
  leadTo(["retries", "mounts", "name"]);
  expect(document.activeElement).toBe(screen.getByLabelText(/^Name(?!space)/));
  leadTo(["retries", "mounts"]);
  expect(document.activeElement).toBe(screen.getByRole("button", { name: "Add to Volumes" }));
  await userEvent.click(screen.getByRole("button", { name: "Add to Volumes" }));
  leadTo(["mounts"]);
  expect(document.activeElement).toBe(screen.getByLabelText("Volumes 1, Mount path"));
});

test("sections follow one another as people think of a job, and what few people need is folded", async () => {
  open();
  const titles = screen.getAllByRole("heading", { level: 2 }).map((one) => one.textContent);
  expect(titles).toEqual(["What to run", "Where to run", "Resources", "Data"]);
  const where = within(screen.getByRole("group", { name: "Where to run" })).getAllByRole("combobox");
  const texts = within(screen.getByRole("group", { name: "Where to run" })).getAllByRole("textbox");
  expect([...where, ...texts].map((one) => one.getAttribute("name"))).toEqual(["namespace", "queue", "priority"]);
  expect(screen.queryByLabelText(/^Launch transport/)).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show advanced options" }));
  expect(screen.getByLabelText(/^Launch transport/)).toBeTruthy();
});

test("a kind's form has only what that kind has", () => {
  open({ kind: "pytorchjob" });
  expect(screen.queryByRole("button", { name: "Only the Launcher" })).toBeNull();
  expect(screen.queryByText("MPI implementation")).toBeNull();
  expect(screen.getByRole("button", { name: "Only the Workers" })).toBeTruthy();
});

const claim = { name: "data", size: "100Gi", accessModes: ["ReadWriteMany"], phase: "Bound" as const };
const choices: Choices = {
  images: { images: ["quay.io/team/a:1"] },
  claims: { claims: [claim], more: false },
  configMaps: { names: ["settings"], more: false },
  unknown: [
    { part: "queues", reason: "Late", message: "LocalQueues were not read in time" },
    { part: "secrets", reason: "NotAllowed", message: "you may not list Secrets" },
  ],
};
/** What a field offers. */
const offeredTo = (field: HTMLElement) => {
  const list = document.getElementById(field.getAttribute("list") ?? "");
  return list && [...list.children].map((one) => one.getAttribute("value"));
};
const description = (field: HTMLElement) =>
  document.getElementById(field.getAttribute("aria-describedby") ?? "")?.textContent;

test("a field offers what the service lists, and takes any other text unchanged", async () => {
  const { fields } = open({}, { choices });
  const image = screen.getByLabelText<HTMLInputElement>(/^Training image/, { selector: "input" });
  expect(offeredTo(image)).toEqual(["quay.io/team/a:1"]);
  await userEvent.type(image, "Other/Image: 2");
  await userEvent.tab();
  expect([image.value, fields().image]).toEqual(["Other/Image: 2", "Other/Image: 2"]);
});

test("a field whose list is unknown is an ordinary one that says why, and one whose list is not read says nothing", () => {
  open({}, { choices });
  const queue = screen.getByRole("textbox", { name: "Queue" });
  expect(description(queue)).toBe("No list to choose from: LocalQueues were not read in time");
  cleanup();
  open();
  expect(screen.getByRole("textbox", { name: "Queue" }).getAttribute("aria-describedby")).toBeNull();
});

test("an entry offers the objects of the source that it names", async () => {
  const { fields } = open({}, { choices });
  await userEvent.click(screen.getByRole("button", { name: "Add to Volumes" }));
  const object = screen.getByLabelText("Volumes 1, Name of the source");
  expect(offeredTo(object)).toEqual(["data"]);
  await userEvent.type(object, "data");
  expect(description(object)).toBe("data: 100\u00a0GiB, ReadWriteMany");
  await userEvent.selectOptions(screen.getByLabelText("Volumes 1, Source"), "configMap");
  expect(offeredTo(object)).toEqual(["settings"]);
  await userEvent.selectOptions(screen.getByLabelText("Volumes 1, Source"), "secret");
  expect([offeredTo(object), description(object)]).toEqual([null, "No list to choose from: you may not list Secrets"]);
  expect(fields().mounts?.[0]?.secret).toBe("data");
});

test("below the GPUs of a Worker is what is free in the cluster and in the chosen queue", () => {
  const resource = "nvidia.com/gpu";
  const gpus: Gpus = {
    cluster: { sums: [{ resource, model: "A100", gpus: 8, free: 3 }] },
    queues: { queues: [{ name: "team", stopped: false, sums: [{ resource, gpus: 4, free: 0 }] }] },
    unknown: [],
  };
  open({ queue: "team" }, { gpus });
  expect(description(screen.getByRole("textbox", { name: "GPUs per Worker" }))).toBe(
    "Free now: 3 of 8 A100Free in the queue team: 0 of 4 nvidia.com/gpu",
  );
});

test("the namespaces are offered in which the person may create jobs, and a list that has none says so", () => {
  open({}, { namespaces: { names: ["team", "other"], isPartial: false } });
  const namespace = () => screen.getByLabelText(/^Namespace/, { selector: "input" });
  const listed = [...document.querySelectorAll("#field-namespace-list option")].map((one) => one.getAttribute("value"));
  expect([listed, namespace().getAttribute("aria-describedby")]).toEqual([["team", "other"], null]);
  cleanup();
  open({}, { namespaces: { names: [], isPartial: false } });
  expect(description(namespace())).toMatch(/^You may not create jobs of this kind in any namespace/);
  cleanup();
  open({}, { namespaces: { names: ["team"], isPartial: true } });
  expect(description(namespace())).toBe("There are more namespaces than the list shows. They can be typed.");
});

const gpu = { resource: "nvidia.com/gpu", title: "GPU", type: "Accelerator" as const };
const profile = {
  namespace: "opendatahub",
  name: "one-gpu",
  title: "One H100",
  description: "For training",
  resources: [
    { resource: "cpu", title: "CPU", type: "CPU" as const, minimum: "1", initial: "8" },
    { resource: "memory", title: "Memory", type: "Memory" as const, minimum: "2Gi", maximum: "64Gi", initial: "32Gi" },
    { ...gpu, minimum: "1", initial: "1" },
  ],
  nodeSelector: { gpu: "h100" },
  tolerations: [{ key: "nvidia.com/gpu", operator: "Exists" as const }],
};
const queued = { ...profile, name: "queued", title: "AMD", queue: "amd", nodeSelector: {}, tolerations: [] };
const amd = { ...gpu, resource: "amd.com/gpu", minimum: "1", initial: "2" };
const hardwareProfiles = { profiles: [profile, { ...queued, resources: [amd] }], more: false };

test("a hardware profile fills in what its jobs request and where they run, and another one replaces that", async () => {
  const { fields } = open({ workers: 2, memory: "1Gi" }, { choices: { hardwareProfiles, unknown: [] } });
  const picker = screen.getByLabelText<HTMLSelectElement>(/^Hardware profile/);
  await userEvent.selectOptions(picker, "One H100");
  expect(fields()).toEqual({
    workers: 2,
    cpu: "8",
    memory: "32Gi",
    gpus: 1,
    scheduling: { nodeSelector: { gpu: "h100" }, tolerations: profile.tolerations },
  });
  expect(description(picker)).toBe("For trainingCPU: at least 1Memory: 2Gi to 64GiGPU: at least 1");
  await userEvent.selectOptions(picker, "AMD");
  expect(fields()).toMatchObject({ workers: 2, queue: "amd", worker: { limits: { "amd.com/gpu": "2" } } });
  expect([fields().cpu, fields().gpus, fields().scheduling?.nodeSelector]).toEqual([undefined, undefined, undefined]);
  await userEvent.clear(screen.getByRole("textbox", { name: "Queue" }));
  expect(picker.value).toBe("");
});

test("what a kind of job has no field for is named, and left out", async () => {
  const { fields } = open({ kind: "trainjob" }, { choices: { hardwareProfiles, unknown: [] } });
  const picker = screen.getByLabelText<HTMLSelectElement>(/^Hardware profile/);
  await userEvent.selectOptions(picker, "One H100");
  expect([fields().cpu, fields().scheduling]).toEqual(["8", undefined]);
  expect(description(picker)).toMatch(/Not applied, because a TrainJob has no such fields: Nodes, Tolerations$/);
});

test("there is no picker where no profile is offered, and a sentence where they could not be read", () => {
  open({}, { choices: { hardwareProfiles: { profiles: [], more: false }, unknown: [] } });
  expect(screen.queryByLabelText("Hardware profile")).toBeNull();
  cleanup();
  const message = "you may not list hardware profiles";
  open({}, { choices: { unknown: [{ part: "hardwareProfiles", reason: "NotAllowed", message }] } });
  expect(screen.getByText(`Hardware profiles cannot be offered: ${message}`)).toBeTruthy();
  expect(screen.queryByLabelText("Hardware profile")).toBeNull();
});
