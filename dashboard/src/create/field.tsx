// A field with its help, its fault and what to write instead.

import {
  Button,
  Content,
  Flex,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Popover,
  TextInput,
} from "@patternfly/react-core";
import OutlinedQuestionCircleIcon from "@patternfly/react-icons/dist/esm/icons/outlined-question-circle-icon";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";

const text = messages.create;
export type FieldName = keyof typeof text.fields;

type GroupProps = {
  name: FieldName;
  faults?: FieldFault[];
  isRequired?: boolean;
  role?: "group";
  children: ReactNode;
  /** Below the field: what may be better. */
  hint?: ReactNode;
};

export function fieldId(name: FieldName): string {
  return `field-${name}`;
}

export function FieldGroup({ name, faults = [], isRequired, role, children, hint }: GroupProps) {
  const { label } = text.fields[name];
  return (
    <FormGroup
      label={label}
      fieldId={fieldId(name)}
      isRequired={isRequired}
      role={role}
      labelHelp={<FieldHelp name={name} />}
    >
      {children}
      {faults.length > 0 && (
        <FormHelperText id={`${fieldId(name)}-fault`}>
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
      )}
      {hint}
    </FormGroup>
  );
}

type TextProps = Omit<GroupProps, "children" | "role"> & {
  value: string;
  onChange: (value: string) => void;
  type?: "text" | "number";
  min?: number;
  max?: number;
  placeholder?: string;
  list?: string[];
};

export function TextField({ value, onChange, type = "text", min, max, placeholder, list, ...group }: TextProps) {
  const { name, faults = [], isRequired } = group;
  const id = fieldId(name);
  const [typed, setTyped, settle] = useTyped(value);
  return (
    <FieldGroup {...group}>
      <TextInput
        id={id}
        name={name}
        type={type}
        min={min}
        max={max}
        value={typed}
        placeholder={placeholder}
        isRequired={isRequired}
        validated={faults.length ? "error" : "default"}
        aria-describedby={faults.length ? `${id}-fault` : undefined}
        list={list ? `${id}-list` : undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(_event, next) => {
          setTyped(next);
          onChange(next);
        }}
        onBlur={settle}
      />
      {list && (
        <datalist id={`${id}-list`}>
          {list.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      )}
    </FieldGroup>
  );
}

/** What a person types stays as typed until they leave the field, even where the manifest cannot hold it as it is. */
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

function FieldHelp({ name }: { name: FieldName }) {
  const { label, help, link } = text.fields[name];
  if (!help) return null;
  return (
    <Popover
      aria-label={text.help(label)}
      headerContent={label}
      headerComponent="h2"
      bodyContent={
        <>
          <Content component="p">{help}</Content>
          <a href={link} target="_blank" rel="noreferrer">
            {messages.common.readMore}
          </a>
        </>
      }
      footerContent={<Helpful label={label} />}
    >
      <Button
        variant="plain"
        size="sm"
        hasNoPadding
        aria-label={text.help(label)}
        icon={<OutlinedQuestionCircleIcon />}
        className="app-help"
      />
    </Popover>
  );
}

/** Nothing is sent anywhere unless the person follows the link. */
function Helpful({ label }: { label: string }) {
  const [answer, setAnswer] = useState<"yes" | "no">();
  const feedback = `${messages.common.feedbackAddress}/new?${new URLSearchParams({ title: text.feedbackTitle(label) })}`;
  return (
    <Flex columnGap={{ default: "columnGapSm" }} alignItems={{ default: "alignItemsCenter" }} role="status">
      {answer === "yes" && text.helpful.thanks}
      {answer === "no" && (
        <a href={feedback} target="_blank" rel="noreferrer">
          {text.helpful.tell}
        </a>
      )}
      {!answer && (
        <>
          <span>{text.helpful.question}</span>
          <Button variant="link" size="sm" onClick={() => setAnswer("yes")}>
            {text.helpful.yes}
          </Button>
          <Button variant="link" size="sm" onClick={() => setAnswer("no")}>
            {text.helpful.no}
          </Button>
        </>
      )}
    </Flex>
  );
}
