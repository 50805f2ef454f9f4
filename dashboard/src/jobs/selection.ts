// The jobs that are selected, over all pages of the list.

import { useCallback, useMemo, useState } from "react";
import type { JobRow } from "../api/client";
import { rowKey } from "./actions";

export type Selection = ReadonlyMap<string, JobRow>;
export type Select = (rows: JobRow[], selected: boolean) => void;

/** The selected jobs, over pages; those on this page in their newest state. */
export function useSelection(rows: JobRow[] | undefined): [Selection, Select] {
  const [chosen, setChosen] = useState<Selection>(new Map());
  const select = useCallback<Select>((changed, selected) => {
    setChosen((before) => {
      const after = new Map(before);
      for (const row of changed) {
        if (selected) after.set(rowKey(row), row);
        else after.delete(rowKey(row));
      }
      return after;
    });
  }, []);
  const newest = useMemo(() => {
    const shown = new Map(rows?.map((row) => [rowKey(row), row]));
    return new Map([...chosen].map(([key, row]) => [key, shown.get(key) ?? row]));
  }, [chosen, rows]);
  return [newest, select];
}
