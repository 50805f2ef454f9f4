// A list of entries of two or three parts each: variables, claims, labels.

import { Button, Flex, FlexItem, TextInput } from "@patternfly/react-core";
import MinusCircleIcon from "@patternfly/react-icons/dist/esm/icons/minus-circle-icon";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { useEffect, useState } from "react";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";
import { FieldGroup, type FieldName } from "./field";

const text = messages.create.pairs;

type Props<Part extends string> = {
  name: FieldName;
  faults?: FieldFault[];
  parts: readonly [part: Part, label: string][];
  entries: readonly Record<Part, string>[];
  onChange: (entries: Record<Part, string>[]) => void;
};

export function EntryList<Part extends string>({ name, faults, parts, entries, onChange }: Props<Part>) {
  const [first] = parts;
  const list = messages.create.fields[name].label;
  // An entry that has no name yet is shown, but not written.
  const [shown, setShown] = useState<readonly Record<Part, string>[]>(entries);
  const written = JSON.stringify(entries);
  useEffect(() => {
    const complete = (all: readonly Record<Part, string>[]) => all.filter((entry) => first && entry[first[0]]);
    setShown((before) => (JSON.stringify(complete(before)) === written ? before : JSON.parse(written)));
  }, [written, first]);
  const change = (next: Record<Part, string>[]) => {
    setShown(next);
    onChange(next.filter((entry) => first && entry[first[0]]));
  };
  const empty = Object.fromEntries(parts.map(([part]) => [part, ""])) as Record<Part, string>;
  return (
    <FieldGroup name={name} faults={faults} role="group">
      {shown.map((entry, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries have no identity but their place.
        <Flex key={index} className="app-entry" columnGap={{ default: "columnGapSm" }} flexWrap={{ default: "nowrap" }}>
          {parts.map(([part, label]) => (
            <FlexItem key={part} grow={{ default: "grow" }}>
              <TextInput
                aria-label={text.entry(list, index + 1, label)}
                placeholder={label}
                value={entry[part]}
                autoComplete="off"
                spellCheck={false}
                onChange={(_event, value) =>
                  change(shown.map((one, at) => (at === index ? { ...one, [part]: value } : one)))
                }
              />
            </FlexItem>
          ))}
          <Button
            variant="plain"
            aria-label={text.remove(list, index + 1)}
            icon={<MinusCircleIcon />}
            onClick={() => change(shown.filter((_entry, at) => at !== index))}
          />
        </Flex>
      ))}
      <Button variant="link" isInline icon={<PlusCircleIcon />} onClick={() => setShown([...shown, empty])}>
        {text.add(list)}
      </Button>
    </FieldGroup>
  );
}
