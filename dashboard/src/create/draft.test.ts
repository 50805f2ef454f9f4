import { expect, test } from "vitest";
import { keepModel, recallDraft } from "./draft";
import { beginWithKind, typeCommand } from "./model";

test("a draft has the command as it was typed, also with an open quote", () => {
  const model = typeCommand(beginWithKind("mpijob"), "python 'a");
  keepModel("mpijob", model);
  expect(recallDraft("mpijob")?.model.typed).toEqual(model.typed);
  expect(recallDraft("tfjob")).toBeUndefined();
});
