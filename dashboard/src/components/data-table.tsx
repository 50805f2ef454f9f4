// A plain table of rows, which becomes a list of cells on narrow screens. Its rows are named for `useKeptFocus`.

import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import type { FocusEvent, ReactNode } from "react";

export type DataColumn<Row> = { label: string; cell: (row: Row) => ReactNode; isAction?: boolean };

type Props<Row> = {
  label: string;
  columns: DataColumn<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  onFocus?: (event: FocusEvent) => void;
};

export function DataTable<Row>({ label, columns, rows, rowKey, onFocus }: Props<Row>) {
  return (
    <div className="app-scroll-x">
      <Table aria-label={label} className="app-table" variant="compact" onFocus={onFocus}>
        <Thead>
          <Tr>
            {columns.map((column) =>
              column.isAction ? (
                <Th key={column.label} screenReaderText={column.label} />
              ) : (
                <Th key={column.label} modifier="wrap">
                  {column.label}
                </Th>
              ),
            )}
          </Tr>
        </Thead>
        <Tbody>
          {rows.map((row) => (
            <Tr key={rowKey(row)} data-row={rowKey(row)}>
              {columns.map((column) => (
                <Td
                  className="app-cell"
                  key={column.label}
                  dataLabel={column.isAction ? undefined : column.label}
                  isActionCell={column.isAction}
                  modifier="breakWord"
                >
                  {column.cell(row)}
                </Td>
              ))}
            </Tr>
          ))}
        </Tbody>
      </Table>
    </div>
  );
}
