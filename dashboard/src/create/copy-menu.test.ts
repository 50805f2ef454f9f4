import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { formats } from "./copy-menu";

const manifest = "kind: MPIJob # \"quoted\"\nspec:\n  text: |\n    $HOME `date` \\n 'x'\nEOF\n";

describe("a copied manifest", () => {
  test("arrives unchanged through a shell", () => {
    const command = formats.cli(manifest, "team-cv").replace(/^odh .* <</, "cat <<");
    expect(execFileSync("sh", ["-c", command], { encoding: "utf8" })).toBe(manifest);
  });

  test("arrives unchanged in Python", () => {
    for (const text of [manifest, 'a: """b"""\n', "plain: yes\n", 'ends: "']) {
      const program = formats
        .sdk(text, "team-cv")
        .replace(/[\s\S]*client\.create\(/, "print(dict(manifest=")
        .replace(/, namespace=.*\n$/, ")['manifest'], end='')\n");
      expect(execFileSync("python3", ["-c", program], { encoding: "utf8" })).toBe(text);
    }
  });
});
