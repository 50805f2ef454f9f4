// The controls of single values, each with its label, help and faults.

import {
  Button,
  Checkbox,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  InputGroup,
  InputGroupItem,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import MinusIcon from "@patternfly/react-icons/dist/esm/icons/minus-icon";
import PlusIcon from "@patternfly/react-icons/dist/esm/icons/plus-icon";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";
import { stepped, wholeNumber } from "./fields";
import { fieldId, labelOf, nameOf, useBlock, useField, useForm } from "./form-context";
import { FieldHelp } from "./help";
import { aboutChoice, listOf, type Offered } from "./offers";

const text = messages.create;

type GroupProps = {
  at: string;
  faults?: readonly FieldFault[];
  isRequired?: boolean;
  role?: "group";
  children: ReactNode;
  /** Below the field: what may be better. */
  hint?: ReactNode;
};

export function FieldGroup({ at, faults = [], isRequired, role, children, hint }: GroupProps) {
  return (
    <FormGroup
      label={labelOf(at)}
      fieldId={fieldId(at)}
      isRequired={isRequired}
      role={role}
      labelHelp={<FieldHelp at={at} />}
    >
      {children}
      <Faults at={at} faults={faults} />
      {hint}
    </FormGroup>
  );
}

function Faults({ at, faults }: { at: string; faults: readonly FieldFault[] }) {
  if (!faults.length) return null;
  return (
    <FormHelperText id={`${fieldId(at)}-fault`}>
      <HelperText isLiveRegion>
        {faults.map(({ path, fault, fix }) => (
          <HelperTextItem key={`${path} ${fault}`} variant="error">
            <bdi>
              {fault}
              {fix && `: ${fix}`}
            </bdi>
          </HelperTextItem>
        ))}
      </HelperText>
    </FormHelperText>
  );
}

type TextProps = Omit<GroupProps, "children" | "role"> & {
  value: string;
  onChange: (value: string) => void;
  isNumber?: boolean;
  placeholder?: string;
  /** What to choose from: the texts, or the id of a list that is there already. */
  list?: readonly string[] | string;
  /** Below the field: what belongs to what is typed in it. */
  about?: readonly string[];
  /** Buttons for the next number up and down. */
  step?: Step;
};
type Step = { by: (by: 1 | -1) => void; canBy: (by: 1 | -1) => boolean };

/** A line of text, of a value that the page holds. */
export function TextBox({ value, onChange, isNumber, placeholder, list, about = [], step, ...group }: TextProps) {
  const { at, faults = [], isRequired, hint } = group;
  const id = fieldId(at);
  const [typed, setTyped, settle] = useTyped(value);
  const described = [faults.length > 0 && `${id}-fault`, about.length > 0 && aboutId(at)].filter(Boolean);
  const input = (
    <TextInput
      id={id}
      name={at}
      inputMode={isNumber ? "numeric" : undefined}
      value={typed}
      placeholder={placeholder}
      isRequired={isRequired}
      validated={faults.length ? "error" : "default"}
      aria-describedby={described.join(" ") || undefined}
      list={typeof list === "object" ? `${id}-list` : list}
      autoComplete="off"
      spellCheck={false}
      onChange={(_event, next) => {
        setTyped(next);
        onChange(next);
      }}
      onBlur={settle}
      onKeyDown={(event) => {
        if (!step || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
        event.preventDefault();
        step.by(event.key === "ArrowUp" ? 1 : -1);
        settle();
      }}
    />
  );
  return (
    <FieldGroup
      {...group}
      hint={
        <>
          <About at={at} lines={about} />
          {hint}
        </>
      }
    >
      {step ? (
        <Steps label={labelOf(at)} step={step}>
          {input}
        </Steps>
      ) : (
        input
      )}
      {typeof list === "object" && (
        <datalist id={`${id}-list`}>
          {list.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </FieldGroup>
  );
}

export function aboutId(at: string): string {
  return `${fieldId(at)}-about`;
}

/** Below a field: what belongs to its value, in the words of the service. */
export function About({ at, lines }: { at: string; lines: readonly string[] }) {
  if (!lines.length) return null;
  return (
    <FormHelperText id={aboutId(at)}>
      <HelperText>
        {lines.map((line) => (
          <HelperTextItem key={line}>
            <bdi>{line}</bdi>
          </HelperTextItem>
        ))}
      </HelperText>
    </FormHelperText>
  );
}

function Steps({ label, step, children }: { label: string; step: Step; children: ReactNode }) {
  const button = (by: 1 | -1, name: string, icon: ReactNode) => (
    <InputGroupItem>
      <Button
        variant="control"
        aria-label={name}
        icon={icon}
        // Not disabled: it keeps the focus when the last step was taken.
        isAriaDisabled={!step.canBy(by)}
        onClick={() => step.by(by)}
      />
    </InputGroupItem>
  );
  return (
    <InputGroup>
      {button(-1, text.less(label), <MinusIcon />)}
      <InputGroupItem isFill>{children}</InputGroupItem>
      {button(1, text.more(label), <PlusIcon />)}
    </InputGroup>
  );
}

type FieldProps = { at: string; isRequired?: boolean; placeholder?: string; hint?: ReactNode };

export function TextField({ offered, ...props }: FieldProps & { offered?: Offered }) {
  const { value, faults, set } = useField(props.at);
  const { offers } = useForm();
  const typed = String(value ?? "");
  const about = offered ? aboutChoice(offers[offered], typed) : undefined;
  return (
    <TextBox
      {...props}
      value={typed}
      faults={faults}
      onChange={set}
      list={offered ? listOf(offers, offered) : undefined}
      about={about ? [about] : []}
    />
  );
}

/**
 * A whole number, with buttons for one more and one less where `least` is given. PatternFly's NumberInput is not used: it
 * takes no other text and makes a number of an empty one, while here what was typed stays, with what is wrong with it.
 */
export function NumberField({ least, ...props }: FieldProps & { least?: number; about?: readonly string[] }) {
  const { value, faults, set } = useField(props.at);
  const why = typeof value === "string" ? text.notANumber(value) : undefined;
  useBlock(props.at, why);
  const step = (by: 1 | -1) => {
    const next = stepped(value, by, least ?? 0);
    if (next !== undefined) set(next);
  };
  return (
    <TextBox
      {...props}
      isNumber
      value={String(value ?? "")}
      faults={why ? [{ fault: why }] : faults}
      onChange={(next) => set(wholeNumber(next))}
      step={least === undefined ? undefined : { by: step, canBy: (by) => stepped(value, by, least) !== undefined }}
    />
  );
}

/** A part of a pod as YAML or JSON. */
export function YamlField({ at }: { at: string }) {
  const { value, faults, set } = useField(at);
  const id = fieldId(at);
  return (
    <FieldGroup at={at} faults={faults}>
      <TextArea
        id={id}
        value={String(value ?? "")}
        rows={3}
        resizeOrientation="vertical"
        className="app-code"
        validated={faults.length ? "error" : "default"}
        aria-describedby={faults.length ? `${id}-fault` : undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(_event, next) => set(next)}
      />
    </FieldGroup>
  );
}

export function ChoiceField({ at, choices }: { at: string; choices: Readonly<Record<string, string>> }) {
  const { value, faults, set } = useField(at);
  const chosen = String(value ?? "");
  const all = chosen && !(chosen in choices) ? { ...choices, [chosen]: chosen } : choices;
  return (
    <FieldGroup at={at} faults={faults}>
      <FormSelect
        id={fieldId(at)}
        value={chosen}
        onChange={(_event, next) => set(next)}
        validated={faults.length ? "error" : "default"}
        aria-describedby={faults.length ? `${fieldId(at)}-fault` : undefined}
      >
        <FormSelectOption value="" label={text.choices.default} />
        {Object.entries(all).map(([one, label]) => (
          <FormSelectOption key={one} value={one} label={label} />
        ))}
      </FormSelect>
    </FieldGroup>
  );
}

export function CheckField({ at, isNot = false }: { at: string; isNot?: boolean }) {
  const { value, faults, set } = useField(at);
  return (
    <div>
      <Checkbox
        id={fieldId(at)}
        label={labelOf(at)}
        description={text.fields[nameOf(at)].help || undefined}
        isChecked={(value === true) !== isNot}
        onChange={(_event, checked) => set(checked !== isNot ? true : undefined)}
      />
      <Faults at={at} faults={faults} />
    </div>
  );
}

/** What a person types stays as typed until they leave the field, even where the fields cannot hold it as it is. */
export function useTyped(value: string): [string, (typed: string) => void, () => void] {
  const [typed, setTyped] = useState(value);
  const isTyping = useRef(false);
  useEffect(() => {
    if (!isTyping.current) setTyped(value);
  }, [value]);
  return [
    typed,
    (next) => {
      isTyping.current = true;
      setTyped(next);
    },
    () => {
      isTyping.current = false;
      setTyped(value);
    },
  ];
}
