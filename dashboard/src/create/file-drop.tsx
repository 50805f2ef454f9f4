// A manifest from a file: dropped anywhere on the page, or chosen.

import { Button } from "@patternfly/react-core";
import { type ReactNode, useCallback, useRef, useState } from "react";
import { useLocation, useNavigate } from "react-router-dom";
import { useToast } from "../components/toasts";
import { messages } from "../messages";
import { keepManifest } from "./draft";

const text = messages.create.guide;
const largestFile = 1024 * 1024;

function useOpenFile(): (file: File | undefined) => void {
  const navigate = useNavigate();
  const { search } = useLocation();
  const { show } = useToast();
  return useCallback(
    async (file: File | undefined) => {
      if (!file) return;
      if (file.size > largestFile) {
        show(text.fileTooLarge, "warning");
        return;
      }
      const origin = `file:${file.name}:${file.lastModified}:${Date.now()}`;
      keepManifest(origin, await file.text());
      const query = new URLSearchParams(search);
      for (const name of ["from", "set", "type", "template"]) query.delete(name);
      query.set("file", origin);
      void navigate(`/create/job?${query}`);
    },
    [navigate, search, show],
  );
}

export function FileDrop({ children }: { children: ReactNode }) {
  const open = useOpenFile();
  const [over, setOver] = useState(false);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: dropping is a second way; the button "Choose a file" is the first.
    <div
      className={over ? "app-drop app-drop-over" : "app-drop"}
      onDragOver={(event) => {
        if (![...event.dataTransfer.types].includes("Files")) return;
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        setOver(false);
        if (!event.dataTransfer.files.length) return;
        event.preventDefault();
        open(event.dataTransfer.files[0]);
      }}
    >
      {children}
    </div>
  );
}

export function ChooseFile() {
  const open = useOpenFile();
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        accept=".yaml,.yml,.json"
        hidden
        aria-label={text.file}
        onChange={(event) => open(event.target.files?.[0])}
      />
      <Button variant="secondary" onClick={() => input.current?.click()}>
        {text.file}
      </Button>
    </>
  );
}
