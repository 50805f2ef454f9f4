// Keeps the keyboard's place in the list: if the row with the focus goes away, the page's title has it, and not nothing.

import { type FocusEvent, useEffect, useRef } from "react";

/** Returns what to do when something in the table gets the focus. Rows have their key as `data-row`; none are given while a dialog is open. */
export function useKeptFocus(rows: readonly string[] | undefined): (event: FocusEvent) => void {
  const last = useRef<string>();
  useEffect(() => {
    const isLost = document.activeElement === document.body || !document.activeElement;
    if (!rows || !isLost || last.current === undefined || rows.includes(last.current)) return;
    last.current = undefined;
    document.querySelector<HTMLElement>("main h1, h1")?.focus();
  }, [rows]);
  return ({ target, currentTarget }) => {
    // A row's menu is drawn elsewhere, but is a part of the row for React.
    if (currentTarget.contains(target)) last.current = target.closest<HTMLElement>("[data-row]")?.dataset.row;
  };
}
