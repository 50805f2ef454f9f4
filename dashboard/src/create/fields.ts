// The fields of a job as a person types them: those of the contract's `JobSpec`, but a number may be any text until it is one.
// No field has a default here, and none is checked: the service does both.

import { type JobSpec, type Kind, kindOf } from "../api/client";

type Typed<T> = T extends number
  ? number | string
  : T extends string
    ? string
    : T extends readonly (infer Item)[]
      ? Typed<Item>[]
      : T extends object
        ? { [Key in keyof T]?: Typed<T[Key]> }
        : T;

export type Fields = Typed<JobSpec>;
export type Volume = Typed<NonNullable<JobSpec["mounts"]>[number]>;
export type Variable = Typed<NonNullable<JobSpec["variables"]>[number]>;
export type Toleration = Typed<NonNullable<NonNullable<JobSpec["scheduling"]>["tolerations"]>[number]>;
export type Texts = Record<string, string>;

/** A change of fields, which can be made again on others: those that the service reads meanwhile. */
export type Update = (fields: Fields) => Fields;

/** The fields as the contract has them. A text in place of a number is sent too: the service refuses it. */
export function specOf(fields: Fields): JobSpec {
  return fields as JobSpec;
}

export function kindOfFields(fields: Fields): Kind {
  return kindOf(fields.kind);
}

/** The value at a path such as `worker.image`. */
export function valueAt(fields: Fields, path: string): unknown {
  return path.split(".").reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), fields);
}

export function textAt(fields: Fields, path: string): string {
  const value = valueAt(fields, path);
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** Sets the value at a path; `undefined` and an empty text remove it. */
export function setAt(path: string, value: unknown): Update {
  const names = path.split(".");
  return (fields) => withValue(fields, names, value === "" ? undefined : value) as Fields;
}

function withValue(value: unknown, [name, ...rest]: string[], leaf: unknown): unknown {
  if (name === undefined) return leaf;
  const { [name]: before, ...others } = isObject(value) ? value : {};
  const after = withValue(before, rest, leaf);
  return after === undefined ? others : { ...others, [name]: after };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A whole number as one, any other text as it was typed, nothing for an empty text. */
export function wholeNumber(text: string): number | string | undefined {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^[+-]?\d{1,15}$/.test(trimmed) ? Number(trimmed) : text;
}

/** The next number up or down, at least `least`; nothing where there is none, or where the field has another text. */
export function stepped(value: unknown, by: 1 | -1, least: number): number | undefined {
  if (value === undefined) return by > 0 ? least : undefined;
  const next = typeof value === "number" ? Math.max(value + by, least) : undefined;
  return next === value ? undefined : next;
}
