import { expect, test } from "vitest";
import { hasOpenQuote, inShell, joinCommand, shellSigns, splitCommand } from "./command";

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

test.each([
  ["python train.py --epochs 10", []],
  ["python train.py \\\n  --lr 0.1\n", []],
  ["cat log | grep loss", ["|"]],
  ["cd /x && python train.py; echo done", ["&&", ";"]],
  ["python train.py > out.txt 2>&1", [">", "2>&1"]],
  ["make || exit 1 &", ["||", "&"]],
  ["wc < in.txt >> out.txt", ["<", ">>"]],
  ["cat <<EOF", ["<<"]],
  [`echo $RANK \${HOME} $(date)`, ["$"]],
  ["echo `date`", ["`"]],
  ['echo "rank $RANK"', ["$"]],
  ["LR=1 python train.py", ["LR="]],
  ["python train.py --lr=1", []],
  ["cat *.txt", ["*"]],
  ["echo one\n\n echo two", ["\n"]],
  ["  echo one  ", []],
  ["# don't stop\npython train.py", ["\n"]],
  ["#!/bin/sh\nset -e\ncd '/x y' && train", ["\n", "&&"]],
  // Between single quotes, after a backslash, and of Kubernetes: not the shell's.
  ["grep 'a|b;c $d\ne' in.txt", []],
  [String.raw`echo \$HOME \| \;`, []],
  ["echo $(OMPI_COMM_WORLD_RANK) 5$ $", []],
  ['grep "a|b; c > d * e"', []],
  // A shell that is there already.
  [`sh -c 'echo "$RANK" | cat'`, []],
  ['/bin/bash -lc "echo $RANK | cat"', []],
  ['sh -c "echo $RANK" | cat', ["|"]],
])("of %j, a shell is needed for %j", (text, signs) => {
  expect(shellSigns(text)).toEqual(signs);
});

test("what a shell has to run arrives there as it was typed, and needs no other shell", () => {
  for (const text of ['cd /x && echo "it\'s $HOME" | cat', "# don't\nset -e\ntrain  --all\n"]) {
    const command = joinCommand(inShell(text));
    expect(splitCommand(command)).toEqual(["sh", "-c", text]);
    expect(shellSigns(command)).toEqual([]);
  }
});
