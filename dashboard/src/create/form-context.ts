// What every control of the form reads and changes, by the path of its field.

import { createContext, useContext, useEffect } from "react";
import type { Gpus, Read } from "../api/choices";
import type { Schemas } from "../api/client";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";
import type { NamespacesOfNew } from "../shell/namespace";
import { type Fields, setAt, type Update, valueAt } from "./fields";
import type { Hardware } from "./hardware";
import type { TypedCommand } from "./model";
import type { Offers } from "./offers";

const text = messages.create;
export type FieldName = keyof typeof text.fields;

export type FormState = {
  fields: Fields;
  change: (update: Update) => void;
  /** The command as it was typed. */
  typed: TypedCommand | undefined;
  typeCommand: (text: string) => void;
  faults: ReadonlyMap<string, FieldFault[]>;
  /** Fields whose text cannot be sent. */
  blocked: readonly string[];
  /** Reports why what is typed in a field cannot be sent. */
  block: (path: string, why: string | undefined) => void;
  namespace: string;
  onNamespace: (namespace: string) => void;
  /** Where the person may create such jobs. */
  namespaces: NamespacesOfNew;
  /** What former runs used. */
  advice: Schemas["ProgramAdvice"] | undefined;
  /** What fields offer to choose from. */
  offers: Offers;
  hardware: Hardware;
  gpus: Read<Gpus>;
};

const FormContext = createContext<FormState | undefined>(undefined);
export const FormProvider = FormContext.Provider;

export function useForm(): FormState {
  const form = useContext(FormContext);
  if (!form) throw new Error("a field outside of the form");
  return form;
}

export function nameOf(at: string): FieldName {
  return at.split(".").at(-1) as FieldName;
}

export function fieldId(at: string): string {
  return `field-${at.replaceAll(".", "-")}`;
}

export function labelOf(at: string): string {
  const { label } = text.fields[nameOf(at)];
  if (at.startsWith("worker.")) return text.ofWorkers(label);
  return at.startsWith("launcher.") ? text.ofLauncher(label) : label;
}

export function useField(at: string) {
  const { fields, change, faults } = useForm();
  return {
    value: valueAt(fields, at),
    faults: faults.get(at) ?? [],
    set: (value: unknown) => change(setAt(at, value)),
  };
}

/** Says for as long as the control is there why its text cannot be sent. */
export function useBlock(at: string, why: string | undefined): void {
  const { block } = useForm();
  useEffect(() => {
    block(at, why);
    return () => block(at, undefined);
  }, [block, at, why]);
}
