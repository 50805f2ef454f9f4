import { expect, test } from "vitest";
import { hasOpenQuote, joinCommand, splitCommand } from "./command";

test("a command is split as a shell splits it, and joined so that it splits again", () => {
  const cases = ["python train.py", `sh -c 'echo "a b"; exit 1'`, "", String.raw`a\ b "c \" d" ''`, "sh -c 'a\nb'"];
  for (const one of cases) expect(splitCommand(joinCommand(splitCommand(one)))).toEqual(splitCommand(one));
  expect(splitCommand(cases[3] ?? "")).toEqual(["a b", 'c " d', ""]);
});

test("a pasted script keeps its lines inside quotes, and lines that go on are joined", () => {
  expect(splitCommand("sh -c 'cd /x &&\n  train'")).toEqual(["sh", "-c", "cd /x &&\n  train"]);
  expect(splitCommand("python train.py \\\n  --lr 1\\\n0 \"a\\\nb\" 'c\\\nd'")).toEqual([
    ...["python", "train.py", "--lr", "10", "ab", "c\\\nd"],
  ]);
});

test("a command with an open quote is not complete", () => {
  expect(["a 'b", 'a "b', "a 'b'", String.raw`a \'b`].map(hasOpenQuote)).toEqual([true, true, false, false]);
});
