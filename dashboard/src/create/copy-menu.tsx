// The manifest for other places: as a file, for the command line, for Python.

import { Dropdown, DropdownItem, DropdownList, MenuToggle } from "@patternfly/react-core";
import { useState } from "react";
import { useToast } from "../components/toasts";
import { messages } from "../messages";

const text = messages.create.copy;

export const formats = {
  yaml: (manifest: string) => manifest,
  /** A here-document, with an end that the manifest does not contain. */
  cli: (manifest: string, namespace: string) => {
    const lines = manifest.split("\n");
    let end = "EOF";
    while (lines.includes(end)) end += "_";
    return `odh training create --namespace ${namespace} -f - <<'${end}'\n${manifest.trimEnd()}\n${end}\n`;
  },
  sdk: (manifest: string, namespace: string) =>
    [
      "from openshift_ai.training import MPIJobClient",
      "",
      "client = MPIJobClient()",
      `job = client.create(${pythonText(manifest)}, namespace=${JSON.stringify(namespace)})`,
      "",
    ].join("\n"),
};

/** JSON's texts are Python's too; a readable one in three quotes where nothing needs to be escaped. */
function pythonText(text: string): string {
  return /"""|\\|"$/.test(text) ? JSON.stringify(text) : `"""\\\n${text}"""`;
}

/** `read` returns the manifest with everything that was typed. */
export function CopyMenu({ read, namespace }: { read: () => Promise<string>; namespace: string }) {
  const { show } = useToast();
  const [open, setOpen] = useState(false);
  const copy = async (format: keyof typeof formats) => {
    try {
      const manifest = await read();
      await navigator.clipboard.writeText(formats[format](manifest, namespace || "default"));
      show(text.done(text[format]));
    } catch {
      show(text.failed, "warning");
    }
  };
  return (
    <Dropdown
      shouldFocusFirstItemOnOpen
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={() => setOpen(false)}
      popperProps={{ appendTo: "inline", position: "right" }}
      toggle={(toggle) => (
        <MenuToggle ref={toggle} isExpanded={open} onClick={() => setOpen(!open)}>
          {text.toggle}
        </MenuToggle>
      )}
    >
      <DropdownList>
        {(["yaml", "cli", "sdk"] as const).map((format) => (
          <DropdownItem key={format} onClick={() => void copy(format)}>
            {text[format]}
          </DropdownItem>
        ))}
      </DropdownList>
    </Dropdown>
  );
}
