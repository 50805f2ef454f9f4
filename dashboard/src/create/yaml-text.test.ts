import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { merge, readText, withNamespace } from "./yaml-text";

const text = `# Ask Jane before you change this.
kind: MPIJob
metadata:
  name: resnet # short
  labels: {team: vision}
spec:
  slotsPerWorker: 2
  template:
    containers:
      # It trains.
      - name: launcher
        image: "train:1.0"
        command: [mpirun, -x, LR, python]
        env:
          - name: LR # the rate
            value: "0.1"
          - name: TOKEN
            valueFrom: {secretKeyRef: {name: secrets, key: token}}
    volumes: &volumes
      - {name: data, size: 1Gi}
    others: *volumes
`;

type Item = { name: string; value?: string; image?: string };
type Tree = {
  metadata: { name: string; labels?: Record<string, string> };
  spec: {
    slotsPerWorker?: number;
    template: { containers: (Item & { command: string[]; env?: Item[] })[]; volumes: unknown[]; others: unknown[] };
  };
};

/** The text after a change of its values, as the service would send them: without a comment, in an order of its own. */
function changed(change: (tree: Tree) => void): string {
  const tree = parse(text) as Tree;
  change(tree);
  return merge(text, JSON.stringify(tree));
}

describe("what the service changed", () => {
  test("leaves the text alone where it is the same", () => {
    expect(changed(() => {})).toBe(text);
  });

  test("keeps comments, order, quotes and everything else", () => {
    const after = changed(({ metadata, spec }) => {
      metadata.name = "bert";
      spec.slotsPerWorker = 8;
      for (const one of spec.template.containers) one.image = "train:2.0";
    });
    expect(after).toBe(
      text
        .replace("name: resnet #", "name: bert #")
        .replace("Worker: 2", "Worker: 8")
        .replace("train:1.0", "train:2.0"),
    );
  });

  test("changes words of a list in their line, and takes some away", () => {
    const after = changed(({ spec }) => {
      for (const one of spec.template.containers) one.command = ["mpirun", "-x", "EPOCHS", "-x", "LR", "python"];
    });
    expect(after).toContain("command: [mpirun, -x, EPOCHS, -x, LR, python]\n");
    const fewer = changed(({ spec }) => {
      for (const one of spec.template.containers) one.command = ["python"];
    });
    expect(fewer).toContain("command: [python]\n");
  });

  test("finds named items wherever they are", () => {
    const after = changed(({ spec }) => {
      for (const one of spec.template.containers)
        one.env = [{ name: "EPOCHS", value: "3" }, ...(one.env ?? []).map((item) => ({ ...item }))];
    });
    expect(after).toContain("- name: LR # the rate\n");
    const names = (parse(after) as Tree).spec.template.containers[0]?.env?.map(({ name }) => name);
    expect(names).toEqual(["EPOCHS", "LR", "TOKEN"]);
  });

  test("takes away what is gone, with its comments only", () => {
    const after = changed(({ metadata, spec }) => {
      delete metadata.labels;
      for (const one of spec.template.containers) one.env = one.env?.slice(1);
    });
    expect(after).not.toMatch(/labels|the rate/);
    expect(after).toContain("# It trains.\n");
  });

  test("makes lines of what was empty, and a value of what had none", () => {
    expect(merge("a: {}\nb:\n", '{"a": {"c": {"d": 1}}, "b": [{"e": 2}]}')).toBe("a:\n  c:\n    d: 1\nb:\n  - e: 2\n");
  });

  test("changes an alias without what it stands for", () => {
    const after = parse(
      changed(({ spec }) => {
        spec.template.others = [{ name: "data", size: "2Gi" }];
      }),
    ) as Tree;
    expect(after.spec.template.volumes).toEqual([{ name: "data", size: "1Gi" }]);
    expect(after.spec.template.others).toEqual([{ name: "data", size: "2Gi" }]);
  });

  test("replaces what cannot be read", () => {
    expect(merge("a: 'b", "a: 1\n")).toBe("a: 1\n");
    expect(merge("# nothing\n", "a: 1\n")).toBe("a: 1\n");
  });

  test("has the values that were sent, whatever was there", () => {
    const samples = [
      "a: [1, {b: 2}]\n",
      "a: {b: [x]}\n",
      "a:\n  - name: x\n    c: 1\n  - name: y\n",
      "a: &x {b: 1}\nc: *x\n",
    ];
    for (const one of samples)
      for (const other of samples) expect(parse(merge(one, other)), `${one} → ${other}`).toEqual(parse(other));
  });
});

describe("reading a text", () => {
  test("says where it is no YAML", () => {
    const fault = { message: expect.any(String), line: expect.any(Number), column: expect.any(Number) };
    expect(readText("a: b\nc: 'd")).toEqual({ fault });
  });

  test("says its kind and its namespace, as far as there are any", () => {
    expect(readText("kind: Pod\nmetadata: {namespace: team}")).toEqual({ kind: "Pod", namespace: "team" });
    expect(readText("- kind: Pod")).toEqual({ kind: "", namespace: "" });
    expect(readText("# nothing")).toEqual({ kind: "", namespace: "" });
  });

  test("and another namespace changes only that", () => {
    const own = "kind: MPIJob\nmetadata:\n  # the team's\n  namespace: one\n  name: a\n";
    expect(withNamespace(own, "two")).toBe(own.replace("one", "two"));
    expect(readText(withNamespace(own, ""))).toEqual({ kind: "MPIJob", namespace: "" });
  });
});
