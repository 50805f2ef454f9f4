import { describe, expect, test } from "vitest";
import { setAt } from "./fields";
import {
  answered,
  beginWithKind,
  beginWithText,
  bodyOf,
  changeFields,
  changeText,
  commandText,
  isToBegin,
  type Model,
  sourceOf,
  stepOf,
  typeCommand,
  unreadable,
} from "./model";
import { readText } from "./yaml-text";

const step = (model: Model) => stepOf(model, readText(model.text));
const blank = { manifest: "kind: MPIJob\nreplicas: 2\n", spec: { name: "", image: "", workers: 2 }, complete: true };

describe("a form that begins with a kind", () => {
  const begun = answered(beginWithKind("mpijob"), "begin", blank);

  test("asks for what such a job begins with", () => {
    const model = beginWithKind("tfjob");
    expect([step(model), bodyOf(model, "begin")]).toEqual(["begin", { kind: "tfjob" }]);
    expect(begun.fields).toEqual(blank.spec);
    expect([isToBegin(model), isToBegin(begun)]).toEqual([true, false]);
    expect(step(begun)).toBeUndefined();
  });

  test("keeps what was typed before the answer", () => {
    const typed = changeFields(beginWithKind("mpijob"), setAt("name", "early"));
    const model = answered(typed, "begin", blank);
    expect(model.fields).toMatchObject({ name: "early", workers: 2 });
    expect([step(model), bodyOf(model, "write")]).toEqual(["write", { spec: model.fields }]);
  });

  test("sends fields, and takes the manifest as it comes", () => {
    const typed = changeFields(begun, setAt("workers", 3));
    const model = answered(typed, "write", { manifest: "kind: MPIJob\nreplicas: 3\n", complete: true });
    expect(model).toMatchObject({ text: "kind: MPIJob\nreplicas: 3\n", fields: { workers: 3 }, updates: [] });
    expect(sourceOf(model)).toEqual({ spec: model.fields });
  });
});

describe("a manifest of the person's own", () => {
  const text = "# mine\nkind: MPIJob\nreplicas: 2\n";
  const read = answered(beginWithText(text), "read", blank);

  test("is read first, and shown and sent as it is", () => {
    expect(step(beginWithText(text))).toBe("read");
    expect(bodyOf(beginWithText(text), "read")).toEqual({ manifest: text });
    expect(read).toMatchObject({ text, fields: blank.spec });
    expect(sourceOf(read)).toEqual({ manifest: text });
  });

  test("takes over changed fields with its comments", () => {
    const typed = changeFields(read, setAt("workers", 4));
    expect(bodyOf(typed, "write")).toEqual({ manifest: text, spec: typed.fields });
    const model = answered(typed, "write", { manifest: "kind: MPIJob\nreplicas: 4\n", complete: true });
    expect(model.text).toBe("# mine\nkind: MPIJob\nreplicas: 4\n");
  });

  test("gets changes of fields that were made while it was read", () => {
    const both = changeFields(changeText(read, `${text}slots: 8\n`), setAt("image", "new"));
    expect([step(both), bodyOf(both, "read")]).toEqual(["read", { manifest: both.text }]);
    const model = answered(both, "read", { ...blank, spec: { ...blank.spec, slots: 8 } });
    expect(model.fields).toMatchObject({ image: "new", slots: 8 });
    expect(step(model)).toBe("write");
  });

  test("that is typed while fields are written gets them afterwards", () => {
    const both = changeText(changeFields(read, setAt("image", "new")), `${text}slots: 8\n`);
    expect(step(both)).toBe("read");
    const model = answered(both, "read", { ...blank, spec: { ...blank.spec, slots: 8 } });
    expect([step(model), model.fields]).toEqual(["write", { ...blank.spec, slots: 8, image: "new" }]);
  });

  test("that the service cannot read, or no one can, is left to the editor", () => {
    expect(step(beginWithText("kind: Pod\n"))).toBeUndefined();
    expect(step(beginWithText("kind: 'MPIJob"))).toBeUndefined();
    const model = answered(beginWithText(text), "read", { manifest: text, complete: false });
    expect(model).toMatchObject({ hasFields: false, text });
    expect(step(model)).toBeUndefined();
  });
});

describe("a command", () => {
  const begun = answered(beginWithKind("mpijob"), "begin", { ...blank, spec: { ...blank.spec, command: ["old"] } });
  const shown = ({ fields = {}, typed }: Model) => commandText(fields, typed);

  test("is shown as it was typed, also after the service has written the manifest", () => {
    const typed = typeCommand(begun, "train   --lr 1 \\\n  --all");
    const written = answered(typed, "write", { manifest: "kind: MPIJob\n", complete: true });
    expect([written.fields?.command, shown(written)]).toEqual([["train", "--lr", "1", "--all"], typed.typed?.text]);
  });

  test("whose quote is open changes nothing but what is shown", () => {
    const typed = typeCommand(begun, "train 'a");
    expect([typed.fields, typed.updates, shown(typed)]).toEqual([begun.fields, [], "train 'a"]);
  });

  test("that was changed elsewhere is shown as it is now", () => {
    const typed = typeCommand(begun, "train   --all");
    expect(shown(changeFields(typed, setAt("command", ["other", "a b"])))).toBe("other 'a b'");
    expect(shown(typeCommand(typed, ""))).toBe("");
  });
});

test("a text in place of a number is left out of what is checked, so that the service finds the other faults", () => {
  const begun = answered(beginWithKind("mpijob"), "begin", blank);
  const typed = changeFields(begun, setAt("workers", "many"));
  const left = unreadable(typed, ["workers", "mounts"]);
  expect(left).toEqual(["workers"]);
  expect(sourceOf(typed, left)).toEqual({ spec: { name: "", image: "" } });
  expect(sourceOf(typed)).toEqual({ spec: { name: "", image: "", workers: "many" } });
  expect(unreadable(changeText(typed, "kind: MPIJob\n"), ["workers"])).toEqual([]);
});
