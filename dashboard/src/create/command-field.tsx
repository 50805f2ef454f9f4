// The command: typed as a shell has it, held as words.

import { TextArea } from "@patternfly/react-core";
import { useState } from "react";
import { messages } from "../messages";
import { hasOpenQuote, joinCommand, splitCommand } from "./command";
import { FieldGroup, useTyped } from "./field";
import { fieldId, useBlock, useField } from "./form-context";

const text = messages.create;
const at = "command";

export function CommandField() {
  const { value, faults, set } = useField(at);
  // A command whose quote is still open cannot be split into words, so the job does not have it yet.
  const [unfinished, setUnfinished] = useState<string>();
  const why = unfinished === undefined ? undefined : text.openQuote;
  useBlock(at, why);
  const words = Array.isArray(value) ? value.map(String) : [];
  const [typed, setTyped, settle] = useTyped(unfinished ?? joinCommand(words));
  const all = why ? [{ fault: why }, ...faults] : faults;
  return (
    <FieldGroup at={at} isRequired faults={all}>
      <TextArea
        id={fieldId(at)}
        name={at}
        rows={1}
        autoResize
        resizeOrientation="vertical"
        className="app-line"
        value={typed}
        placeholder="python /train.py --epochs 10"
        isRequired
        validated={all.length ? "error" : "default"}
        aria-describedby={all.length ? `${fieldId(at)}-fault` : undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(_event, next) => {
          setTyped(next);
          const isOpen = hasOpenQuote(next);
          setUnfinished(isOpen ? next : undefined);
          const words = splitCommand(next);
          if (!isOpen) set(words.length ? words : undefined);
        }}
        onBlur={settle}
      />
    </FieldGroup>
  );
}
