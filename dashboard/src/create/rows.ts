// Lists of fields as rows of texts, as a person types them: variables, volumes, tolerations. A row that is still empty is not sent;
// one that names nothing yet cannot be, and is reported.

import { messages } from "../messages";
import { type Texts, type Toleration, type Variable, type Volume, wholeNumber } from "./fields";

const text = messages.create.rows;

export type Row = Record<string, string>;

/** How a list is shown: its value as rows, its rows as the value, and what is wrong with rows that cannot be sent. */
export type Rows<Value> = {
  read: (value: Value | undefined) => Row[];
  write: (rows: readonly Row[]) => Value | undefined;
  faults: (rows: readonly Row[]) => string[];
};

function given<Key extends string>(key: Key, value: string | undefined): { [one in Key]?: string } {
  return value ? ({ [key]: value } as { [one in Key]?: string }) : {};
}

function listOf<Item>(items: Item[]): Item[] | undefined {
  return items.length ? items : undefined;
}

function isEmpty(row: Row, ...except: string[]): boolean {
  return Object.entries(row).every(([part, value]) => !value || except.includes(part));
}

/** Rows that would replace one another, because one name has one value. */
function repeated(rows: readonly Row[]): string[] {
  const names = rows.filter((row) => !isEmpty(row)).map(({ name = "" }) => name);
  const twice = names.filter((name, index) => names.indexOf(name) < index);
  return [...new Set(twice)].map(text.twice);
}

export const texts: Rows<Texts> = {
  read: (value) => Object.entries(value ?? {}).map(([name, value]) => ({ name, value })),
  write: (rows) => {
    const named = rows.filter((row) => !isEmpty(row)).map(({ name = "", value = "" }) => [name, value] as const);
    return named.length ? Object.fromEntries(named) : undefined;
  },
  faults: repeated,
};

export const variables: Rows<Variable[]> = {
  read: (value) =>
    (value ?? []).map(({ name = "", secret = "", configMap = "", key = "" }) => ({
      name,
      source: configMap ? "configMap" : "secret",
      object: configMap || secret,
      key,
    })),
  write: (rows) =>
    listOf(
      rows
        .filter((row) => !isEmpty(row, "source"))
        .map(({ name = "", source = "secret", object = "", key = "" }) => ({
          name,
          ...given(source === "configMap" ? "configMap" : "secret", object),
          key,
        })),
    ),
  faults: () => [],
};

const isSpace = (row: Row) => row.source === "space";

export const volumes: Rows<Volume[]> = {
  read: (value) =>
    (value ?? []).map((volume) => ({
      path: volume.path ?? "",
      source: sourceOf(volume),
      object: volume.claim || volume.secret || volume.configMap || "",
      subPath: volume.subPath ?? "",
      readOnly: volume.readOnly ? "true" : "",
      size: volume.size ?? "",
      inMemory: volume.inMemory ? "true" : "",
    })),
  // Without the name of a claim, a volume would be space of the pod's own: nobody who chose a claim means that.
  write: (rows) => listOf(rows.filter((row) => !isEmpty(row, "source") && (row.object || isSpace(row))).map(volumeOf)),
  faults: (rows) =>
    rows.flatMap((row, index) =>
      isEmpty(row, "source") || row.object || isSpace(row) ? [] : [text.nameless(index + 1)],
    ),
};

function sourceOf({ claim, secret, configMap }: Volume): string {
  if (claim) return "claim";
  if (secret) return "secret";
  return configMap ? "configMap" : "space";
}

function volumeOf({ path = "", source = "", object, subPath, readOnly, size, inMemory }: Row): Volume {
  if (source === "space") return { path, ...given("size", size), ...(inMemory && { inMemory: true }) };
  if (source !== "claim") return { path, ...given(source === "secret" ? "secret" : "configMap", object) };
  return { path, claim: object, ...given("subPath", subPath), ...(readOnly && { readOnly: true }) };
}

export const tolerations: Rows<Toleration[]> = {
  read: (value) =>
    (value ?? []).map(({ key = "", operator = "", value = "", effect = "", tolerationSeconds = "" }) => ({
      key,
      operator,
      value,
      effect,
      seconds: String(tolerationSeconds),
    })),
  write: (rows) =>
    listOf(
      rows
        .filter((row) => !isEmpty(row))
        .map(({ key, operator, value, effect, seconds = "" }) => {
          const tolerationSeconds = wholeNumber(seconds);
          return {
            ...given("key", key),
            ...given("operator", operator),
            ...given("value", value),
            ...given("effect", effect),
            ...(tolerationSeconds !== undefined && { tolerationSeconds }),
          };
        }),
    ),
  faults: (rows) =>
    rows.flatMap(({ seconds = "" }) =>
      typeof wholeNumber(seconds) === "string" ? [messages.create.notANumber(seconds)] : [],
    ),
};
