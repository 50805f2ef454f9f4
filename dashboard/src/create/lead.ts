// Leads a person from the button at the end of the page to what is wrong.

import { useCallback, useEffect, useRef, useState } from "react";
import { fieldId } from "./form-context";

/** Of an alert that takes the focus where no field can. */
export const leadable = { tabIndex: -1, "data-lead": "" };

/** Moves the focus to the first of these fields, else to the first alert, as soon as the page shows them. */
export function useLead(fields: readonly string[]): () => void {
  const [count, setCount] = useState(0);
  const latest = useRef(fields);
  useEffect(() => {
    latest.current = fields;
  });
  useEffect(() => {
    if (count) leadTo(latest.current);
  }, [count]);
  return useCallback(() => setCount((before) => before + 1), []);
}

export function leadTo(fields: readonly string[]): void {
  const controls = fields.map(controlOf).filter((one) => one !== null);
  const [first] = controls.sort((one, other) =>
    one.compareDocumentPosition(other) & Node.DOCUMENT_POSITION_PRECEDING ? 1 : -1,
  );
  const target = first ?? document.querySelector<HTMLElement>("[data-lead]");
  target?.focus();
}

/** Where a field is typed: of a list, its first entry or the button that adds one. */
function controlOf(field: string): HTMLElement | null {
  const id = fieldId(field);
  const list = `[aria-labelledby="${id}-legend"]`;
  return (
    document.getElementById(id) ??
    document.querySelector<HTMLElement>(`${list} .app-entry :is(input, select, textarea)`) ??
    document.querySelector<HTMLElement>(`${list} .app-add`)
  );
}
