// The lists of the form: what an entry of each consists of.

import type { ReactNode } from "react";
import { messages } from "../messages";
import { EntryList, type Part } from "./entries";
import { useForm } from "./form-context";
import { aboutChoice, listOf, type Offered, type Offers } from "./offers";
import { type Row, texts, tolerations, variables, volumes } from "./rows";

const { parts: text, choices } = messages.create;
const named: readonly Part[] = [
  { part: "name", label: text.name },
  { part: "value", label: text.value, isLong: true },
];
const labelled: readonly Part[] = [
  { part: "name", label: text.label },
  { part: "value", label: text.value },
];
const amounts: readonly Part[] = [
  { part: "name", label: text.resource },
  { part: "value", label: text.amount },
];
const isClaim = ({ source }: Row) => source === "claim";
const isSpace = ({ source }: Row) => source === "space";

export function TextList({ at }: { at: string }) {
  return <EntryList at={at} rows={texts} parts={at.endsWith("nodeSelector") ? labelled : named} />;
}

export function AmountList({ at, hint }: { at: string; hint?: ReactNode }) {
  return <EntryList at={at} rows={texts} parts={amounts} hint={hint} />;
}

/** What a source's objects are offered from. */
const offeredBy: Readonly<Record<string, Offered>> = { claim: "claims", secret: "secrets", configMap: "configMaps" };
const offeredFor = ({ source = "" }: Row) => offeredBy[source];

function listFor(offers: Offers) {
  return (row: Row) => {
    const offered = offeredFor(row);
    return offered && listOf(offers, offered);
  };
}

/** What is known about the objects that the entries name, and about their lists; each once. */
function aboutEntries(offers: Offers) {
  return (rows: readonly Row[]) => {
    const lines = rows.map((row) => {
      const offered = offeredFor(row);
      return offered && aboutChoice(offers[offered], row.object ?? "", true);
    });
    return [...new Set(lines)].filter((line) => line !== undefined);
  };
}

const variableParts = (offers: Offers): readonly Part[] => [
  { part: "name", label: text.name },
  { part: "source", label: text.source, choices: choices.variableSources },
  { part: "object", label: text.object, list: listFor(offers) },
  { part: "key", label: text.key },
];

export function VariableList({ at }: { at: string }) {
  const { offers } = useForm();
  return <EntryList at={at} rows={variables} parts={variableParts(offers)} about={aboutEntries(offers)} />;
}

const volumeParts = (offers: Offers): readonly Part[] => [
  { part: "path", label: text.path },
  { part: "source", label: text.source, choices: choices.volumeSources },
  { part: "object", label: text.object, isShown: (row) => !isSpace(row), list: listFor(offers) },
  { part: "subPath", label: text.subPath, isShown: isClaim },
  { part: "readOnly", label: text.readOnly, isShown: isClaim, isCheck: true },
  { part: "size", label: text.size, isShown: isSpace },
  { part: "inMemory", label: text.inMemory, isShown: isSpace, isCheck: true },
];

export function VolumeList({ at }: { at: string }) {
  const { offers } = useForm();
  return <EntryList at={at} rows={volumes} parts={volumeParts(offers)} about={aboutEntries(offers)} />;
}

const tolerationParts: readonly Part[] = [
  { part: "key", label: text.key },
  { part: "operator", label: text.operator, choices: choices.operators },
  { part: "value", label: text.value },
  { part: "effect", label: text.effect, choices: choices.effects },
  { part: "seconds", label: text.seconds },
];

export function TolerationList({ at }: { at: string }) {
  return <EntryList at={at} rows={tolerations} parts={tolerationParts} />;
}
