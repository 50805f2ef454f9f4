import { expect, test } from "vitest";
import { highlightYaml } from "./yaml-highlight";

const manifest = `# a job
spec:
  - name: "x: y" # why
    image: quay.io/team/train:1.0
    replicas: 4
    args:
      - |-
        echo key: value
        # not a comment

      - --flag
    suspend: false`;

test("no character of a manifest is lost or changed", () => {
  const lines = highlightYaml(manifest).map((tokens) => tokens.map((token) => token.text).join(""));
  expect(lines.join("\n")).toBe(manifest);
});

test("keys, comments and values look different, and text in blocks is no YAML", () => {
  const looks = highlightYaml(manifest).map((tokens) =>
    tokens
      .filter(({ text, look }) => text.trim() && look && look !== "mark")
      .map(({ text, look }) => `${look} ${text.trim()}`),
  );
  expect(looks).toEqual([
    ["comment # a job"],
    ["key spec"],
    ["key name", 'literal "x: y" # why'],
    ["key image"],
    ["key replicas", "literal 4"],
    ["key args"],
    [],
    ["literal echo key: value"],
    ["literal # not a comment"],
    [],
    [],
    ["key suspend", "literal false"],
  ]);
});
