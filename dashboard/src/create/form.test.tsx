import { cleanup, render, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useCallback, useState } from "react";
import { expect, test, vi } from "vitest";
import type { Choices, Gpus } from "../api/choices";
import type { Fields } from "./fields";
import { JobForm } from "./form";
import { FormProvider } from "./form-context";
import { leadTo } from "./lead";
import { beginWithKind, changeFields, type Model, typeCommand } from "./model";
import { offersOf } from "./offers";

// The whole form is rendered with each key, which takes long where many tests run at once.
vi.setConfig({ testTimeout: 20_000 });
vi.mock("../shell/namespace", () => ({ useKnownNamespaces: () => [] }));

type PageProps = {
  begin: Fields;
  onFields: (fields: Fields, blocked: unknown) => void;
  form?: string;
  choices?: Choices;
  gpus?: Gpus;
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
  const offers = offersOf({ data: answers.choices, error: null }, gpus);
  const common = { faults: new Map(), namespace: "team", onNamespace: () => {}, advice: undefined };
  const why = Object.keys(blocked).filter((path) => blocked[path]);
  return (
    <FormProvider
      value={{
        ...common,
        offers,
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

function open(begin: Fields = {}, answers: { choices?: Choices; gpus?: Gpus } = {}) {
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
  await userEvent.click(screen.getByRole("button", { name: "Show Advanced Options" }));
  await userEvent.type(screen.getByRole("textbox", { name: /^Retries/ }), "few");
  await userEvent.click(screen.getByRole("button", { name: "Hide Advanced Options" }));
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
  expect(titles).toEqual(["What to run", "Where to run", "How big", "Data"]);
  const where = within(screen.getByRole("group", { name: "Where to run" })).getAllByRole("combobox");
  const texts = within(screen.getByRole("group", { name: "Where to run" })).getAllByRole("textbox");
  expect([...where, ...texts].map((one) => one.getAttribute("name"))).toEqual(["namespace", "queue", "priority"]);
  expect(screen.queryByLabelText(/^Launch transport/)).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Show Advanced Options" }));
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
  const image = screen.getByLabelText<HTMLInputElement>(/^Training Image/, { selector: "input" });
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
