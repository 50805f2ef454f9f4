// A comparison in columns, one for each job. Where values differ, they are marked by weight and word, not by colour alone.

import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { ReactNode } from "react";
import { ScrollRegion } from "../components/scroll-region";
import { shorten } from "../job/logs/text";
import { messages } from "../messages";
import type { Compared } from "./use-comparison";

const text = messages.compare;

type Props = {
  label: string;
  columns: readonly string[];
  rows: readonly Compared[];
  head?: (column: string) => ReactNode;
};

export function ComparisonTable({ label, columns, rows, head }: Props) {
  return (
    <ScrollRegion label={label} className="app-scroll-x">
      <Table aria-label={label} variant="compact" gridBreakPoint="" className="app-table compare-table">
        <Thead>
          <Tr>
            <Th>{text.field}</Th>
            {columns.map((column) => (
              <Th key={column}>{head ? head(column) : <bdi>{column}</bdi>}</Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {rows.map((row) => (
            <Tr key={row.field}>
              <Th scope="row" className="compare-field">
                <bdi>{breakable(capitalized(row.field ?? ""))}</bdi>
              </Th>
              {columns.map((column, place) => (
                <Td key={column} className={row.same ? undefined : "compare-differs"}>
                  <Value value={row.values[place] ?? ""} />
                </Td>
              ))}
            </Tr>
          ))}
        </Tbody>
      </Table>
    </ScrollRegion>
  );
}

function Value({ value }: { value: string }) {
  if (!value) return <span className="compare-missing">{text.missing}</span>;
  const lines = value.split("\n").map((line) => shorten(line).text);
  return <pre className="compare-value">{lines.join("\n")}</pre>;
}

/** A word of the service as the head of a row; a path stays as it is. */
function capitalized(field: string): string {
  return /[.[]/.test(field) ? field : field.charAt(0).toUpperCase() + field.slice(1);
}

/** Long paths break behind their dots. */
function breakable(path: string): ReactNode[] {
  return path.split(/(?<=[.\]])/).flatMap((part) => [part, <wbr key={part} />]);
}
