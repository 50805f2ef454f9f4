// A list of entries of several parts each: variables, volumes, tolerations, labels.

import {
  Button,
  Checkbox,
  Flex,
  FlexItem,
  FormSelect,
  FormSelectOption,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import MinusCircleIcon from "@patternfly/react-icons/dist/esm/icons/minus-circle-icon";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { type ReactNode, useEffect, useState } from "react";
import { messages } from "../messages";
import { About, aboutId, FieldGroup } from "./field";
import { labelOf, useBlock, useField } from "./form-context";
import type { Row, Rows } from "./rows";

const text = messages.create.rows;

export type Part = {
  part: string;
  label: string;
  /** A choice of these; the first is that of a new entry. */
  choices?: Readonly<Record<string, string>>;
  isCheck?: boolean;
  /** Whether the text may have several lines. */
  isLong?: boolean;
  isShown?: (row: Row) => boolean;
  /** The id of the list to choose from. */
  list?: (row: Row) => string | undefined;
};

type Props<Value> = {
  at: string;
  rows: Rows<Value>;
  parts: readonly Part[];
  hint?: ReactNode;
  /** What there is to say about the lists of the entries that are shown. */
  about?: (rows: readonly Row[]) => string[];
};

export function EntryList<Value>({ at, rows, parts, hint, about }: Props<Value>) {
  const { value, faults, set } = useField(at);
  const list = labelOf(at);
  // An entry that cannot be sent yet is shown all the same.
  const [shown, setShown] = useState<readonly Row[]>(() => rows.read(value as Value | undefined));
  const written = stable(value);
  useEffect(() => {
    const known = JSON.parse(written) as Value | null;
    setShown((before) => (stable(rows.write(before)) === written ? before : rows.read(known ?? undefined)));
  }, [written, rows]);
  const own = rows.faults(shown);
  useBlock(at, own[0]);
  const change = (next: readonly Row[]) => {
    setShown(next);
    set(rows.write(next));
  };
  const lines = about?.(shown) ?? [];
  const empty = Object.fromEntries(parts.map(({ part, choices }) => [part, Object.keys(choices ?? {})[0] ?? ""]));
  return (
    <FieldGroup at={at} faults={[...own.map((fault) => ({ fault })), ...faults]} role="group" hint={hint}>
      {shown.map((row, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: entries have no identity but their place.
        <Flex key={index} className="app-entry" columnGap={{ default: "columnGapSm" }}>
          {parts
            .filter(({ isShown }) => !isShown || isShown(row))
            .map((part) => (
              <FlexItem key={part.part} grow={part.isCheck ? undefined : { default: "grow" }}>
                <EntryPart
                  part={part}
                  name={text.entry(list, index + 1, part.label)}
                  value={row[part.part] ?? ""}
                  list={part.list?.(row)}
                  describedBy={part.list && lines.length ? aboutId(at) : undefined}
                  onChange={(next) =>
                    change(shown.map((one, at) => (at === index ? { ...one, [part.part]: next } : one)))
                  }
                />
              </FlexItem>
            ))}
          <Button
            variant="plain"
            aria-label={text.remove(list, index + 1)}
            icon={<MinusCircleIcon />}
            onClick={() => change(shown.filter((_row, at) => at !== index))}
          />
        </Flex>
      ))}
      <About at={at} lines={lines} />
      <Button
        variant="link"
        isInline
        className="app-add"
        icon={<PlusCircleIcon />}
        onClick={() => setShown([...shown, empty])}
      >
        {text.add(list)}
      </Button>
    </FieldGroup>
  );
}

type PartProps = {
  part: Part;
  name: string;
  value: string;
  list?: string;
  describedBy?: string;
  onChange: (value: string) => void;
};

function EntryPart({ part: own, name, value, list, describedBy, onChange }: PartProps) {
  const { part, label, choices, isCheck, isLong } = own;
  if (isCheck)
    return (
      <Checkbox
        id={name}
        name={part}
        aria-label={name}
        label={label}
        isChecked={value !== ""}
        onChange={(_event, checked) => onChange(checked ? "true" : "")}
      />
    );
  if (choices)
    return (
      <FormSelect aria-label={name} name={part} value={value} onChange={(_event, next) => onChange(next)}>
        {Object.entries(value in choices ? choices : { ...choices, [value]: value }).map(([one, label]) => (
          <FormSelectOption key={one} value={one} label={label} />
        ))}
      </FormSelect>
    );
  const common = {
    "aria-label": name,
    "aria-describedby": describedBy,
    name: part,
    placeholder: label,
    value,
    autoComplete: "off",
    spellCheck: false,
    onChange: (_event: unknown, next: string) => onChange(next),
  };
  return isLong ? (
    <TextArea {...common} rows={1} autoResize resizeOrientation="vertical" className="app-line" />
  ) : (
    <TextInput {...common} list={list} />
  );
}

/** A value as text, whatever the order of its keys. */
function stable(value: unknown): string {
  const sorted = (_key: string, one: unknown) =>
    one && typeof one === "object" && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one;
  return JSON.stringify(value ?? null, sorted);
}
