import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test, vi } from "vitest";
import { JobForm } from "./form";
import { readManifest, write } from "./manifest";
import { blanks } from "./shapes";

vi.mock("../shell/namespace", () => ({ useKnownNamespaces: () => [] }));

/** The form and the manifest that it writes, as the page holds them. */
function Page({ onText }: { onText: (text: string) => void }) {
  const [text, setText] = useState(blanks.mpijob);
  const manifest = readManifest(text);
  if (!("shape" in manifest)) throw new Error("no manifest");
  return (
    <JobForm
      {...manifest}
      namespace="default"
      onNamespace={() => {}}
      faults={[]}
      advice={undefined}
      onChange={(changes) => {
        const next = write(text, changes);
        setText(next);
        onText(next);
      }}
    />
  );
}

test("a command with an open quote stays as it was typed, and the field reports it", async () => {
  const onText = vi.fn();
  render(<Page onText={onText} />);
  const command = screen.getByRole<HTMLInputElement>("textbox", { name: /Command/ });
  await userEvent.type(command, "python 'a");
  await userEvent.tab();
  expect(command.value).toBe("python 'a");
  expect(screen.getByText(/A quotation mark is not closed/)).toBeTruthy();
  await userEvent.type(command, " b'");
  await userEvent.tab();
  expect(command.value).toBe("python 'a b'");
  expect(screen.queryByText(/A quotation mark is not closed/)).toBeNull();
  expect(onText.mock.lastCall?.[0]).toContain("- a b\n");
});
