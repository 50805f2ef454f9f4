// The command: typed as a shell has it, held as words. No shell reads it, which is said where somebody counts on one.

import { Button, FormHelperText, HelperText, HelperTextItem, TextArea } from "@patternfly/react-core";
import { Fragment } from "react";
import { messages } from "../messages";
import { hasOpenQuote, inShell, joinCommand, shellSigns } from "./command";
import { FieldGroup } from "./field";
import { fieldId, useBlock, useField, useForm } from "./form-context";
import { leadTo } from "./lead";
import { commandText } from "./model";

const text = messages.create;
const at = "command";

export function CommandField() {
  const { faults } = useField(at);
  const { fields, typed, typeCommand } = useForm();
  const shown = commandText(fields, typed);
  // A command whose quote is still open cannot be split into words, so the job does not have it yet.
  const why = hasOpenQuote(shown) ? text.openQuote : undefined;
  useBlock(at, why);
  const all = why ? [{ fault: why }, ...faults] : faults;
  const signs = shellSigns(shown);
  // The button that was pressed is gone: the focus goes to the field.
  const runInShell = () => {
    typeCommand(joinCommand(inShell(shown.trim())));
    leadTo([at]);
  };
  const hint = signs.length > 0 && <NoShell signs={signs} onTake={runInShell} />;
  const described = [all.length > 0 && `${fieldId(at)}-fault`, hint && `${fieldId(at)}-shell`].filter(Boolean);
  return (
    <FieldGroup at={at} isRequired faults={all} hint={hint}>
      <TextArea
        id={fieldId(at)}
        name={at}
        rows={1}
        autoResize
        resizeOrientation="vertical"
        className="app-line"
        value={shown}
        placeholder="python /train.py --epochs 10"
        isRequired
        validated={all.length ? "error" : "default"}
        aria-describedby={described.join(" ") || undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(_event, next) => typeCommand(next)}
      />
    </FieldGroup>
  );
}

/** Says what would not work as in a shell, and lets a shell run it. */
function NoShell({ signs, onTake }: { signs: string[]; onTake: () => void }) {
  const others = signs.filter((sign) => sign !== "\n");
  return (
    <FormHelperText id={`${fieldId(at)}-shell`}>
      <HelperText isLiveRegion>
        <HelperTextItem variant="warning">
          {text.noShell.title}{" "}
          {others.length > 0 && (
            <>
              {text.noShell.signs}{" "}
              {others.map((sign) => (
                <Fragment key={sign}>
                  <code>{sign}</code>{" "}
                </Fragment>
              ))}
            </>
          )}
          {others.length < signs.length && `${text.noShell.lines} `}
          <Button variant="link" isInline onClick={onTake}>
            {text.noShell.use}
          </Button>
        </HelperTextItem>
      </HelperText>
    </FormHelperText>
  );
}
