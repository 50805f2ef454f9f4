// The table of jobs. A row is drawn again only when its job has changed.

import { Checkbox, MenuToggle, Progress, ProgressSize, Skeleton } from "@patternfly/react-core";
import EllipsisVIcon from "@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon";
import { ActionsColumn, type IAction, Table, Tbody, Td, Th, Thead, type ThProps, Tr } from "@patternfly/react-table";
import { type KeyboardEvent, memo, type ReactNode, useDeferredValue, useMemo } from "react";
import { Link, useNavigate } from "react-router-dom";
import type { JobRow } from "../api/client";
import { JobState, workersText } from "../components/job-state";
import { useKeptFocus } from "../components/kept-focus";
import { Age, Duration } from "../components/time";
import { duration } from "../format/time";
import { messages } from "../messages";
import { mainElement } from "../shell/main-element";
import { type Action, cloneAddress, jobAddress, permits, rowKey } from "./actions";
import { type Column, type MetricColumn, sortable, sortedBy, sortOf, type View } from "./filter";
import { columnTitle, MetricCell } from "./metric-columns";
import type { Select, Selection } from "./selection";
import { type StartAction, useActionStarter } from "./start-action";

const text = messages.jobs;

type Props = {
  rows: JobRow[] | undefined;
  view: View;
  change: (change: Partial<View>) => void;
  selection: Selection;
  select: Select;
  isOld: boolean;
};

export function JobsTable({ rows: newest, view, change, selection, select, isOld }: Props) {
  // The rows of another filter or page are drawn in parts, between which the page answers keys.
  const rows = useDeferredValue(newest);
  const [start, dialog] = useActionStarter(select);
  const keepFocus = useKeptFocus(useMemo(() => (dialog ? undefined : rows?.map(rowKey)), [rows, dialog]));
  return (
    <div className="app-scroll-x" aria-busy={isOld || !rows}>
      <Table
        aria-label={text.table}
        className="app-table"
        variant="compact"
        gridBreakPoint="grid-lg"
        onKeyDown={moveBetweenRows}
        onFocus={keepFocus}
      >
        <Thead>
          <Tr>
            <Th className="app-check" modifier="fitContent">
              <Checkbox
                id="select all"
                aria-label={text.selectAll}
                isChecked={Boolean(rows?.length && rows.every((row) => selection.has(rowKey(row))))}
                onChange={(_event, selected) => select(rows ?? [], selected)}
              />
            </Th>
            {view.columns.map((column) => (
              <Th key={column} sort={sorting(column, view, change)} modifier="nowrap">
                {text.columns[column]}
              </Th>
            ))}
            {view.metrics.map((column) => (
              <Th key={column} modifier="nowrap">
                <bdi>{columnTitle(column)}</bdi>
              </Th>
            ))}
            <Th screenReaderText={text.actions.toggle} />
          </Tr>
        </Thead>
        <Tbody>
          {rows
            ? rows.map((row) => (
                <Row
                  key={rowKey(row)}
                  row={row}
                  columns={view.columns}
                  metrics={view.metrics}
                  selected={selection.has(rowKey(row))}
                  select={select}
                  start={start}
                />
              ))
            : loadingRows(view)}
        </Tbody>
      </Table>
      {dialog}
    </div>
  );
}

function sorting(column: Column, view: View, change: Props["change"]): ThProps["sort"] {
  if (!sortable[column]) return undefined;
  const by = sortedBy(view.sort);
  return {
    columnIndex: view.columns.indexOf(column),
    sortBy: { index: view.columns.indexOf(by.column), direction: by.direction },
    onSort: (_event, _index, direction) => change({ sort: sortOf(column, direction) }),
  };
}

function loadingRows(view: View): ReactNode {
  const widths = [60, 75, 55, 70, 65, 50];
  return widths.map((width) => (
    <Tr key={width}>
      <Td />
      {view.columns.map((column) => (
        <Td key={column}>
          <Skeleton width={`${width}%`} screenreaderText={messages.common.loading} />
        </Td>
      ))}
      {view.metrics.map((column) => (
        <Td key={column} />
      ))}
      <Td />
    </Tr>
  ));
}

type RowProps = {
  row: JobRow;
  columns: readonly Column[];
  metrics: readonly MetricColumn[];
  selected: boolean;
  select: Select;
  start: StartAction;
};

const Row = memo(function Row({ row, columns, metrics, selected, select, start }: RowProps) {
  const name = row.name ?? "";
  return (
    <Tr isRowSelected={selected} data-row={rowKey(row)}>
      <Td modifier="fitContent">
        <Checkbox
          id={`select ${rowKey(row)}`}
          aria-label={text.rowSelect(name)}
          isChecked={selected}
          onChange={(_event, on) => select([row], on)}
        />
      </Td>
      {columns.map((column) => (
        <Td
          className="app-cell"
          key={column}
          dataLabel={text.columns[column]}
          modifier={column === "name" || column === "workers" ? "breakWord" : "nowrap"}
        >
          {cells[column](row)}
        </Td>
      ))}
      {metrics.map((column) => (
        <Td className="app-cell" key={column} dataLabel={columnTitle(column)} modifier="nowrap">
          <MetricCell uid={row.uid} column={column} />
        </Td>
      ))}
      <Td isActionCell>
        <RowActions row={row} start={start} />
      </Td>
    </Tr>
  );
});

function RowActions({ row, start }: { row: JobRow; start: StartAction }) {
  const navigate = useNavigate();
  const isOff = (action: Action) => !permits(row, action);
  const items: IAction[] = [
    { title: text.actions.open, onClick: () => void navigate(jobAddress(row)) },
    { title: text.actions.suspend, isDisabled: isOff("suspend"), onClick: () => start("suspend", [row]) },
    { title: text.actions.resume, isDisabled: isOff("resume"), onClick: () => start("resume", [row]) },
    { title: text.actions.cancel, isDisabled: isOff("cancel"), onClick: () => start("cancel", [row]) },
    { title: text.actions.retry, isDisabled: isOff("retry"), onClick: () => start("retry", [row]) },
    { title: text.actions.clone, onClick: () => void navigate(cloneAddress(row)) },
    { isSeparator: true },
    { title: text.actions.delete, isDanger: true, isDisabled: isOff("delete"), onClick: () => start("delete", [row]) },
  ];
  return (
    <ActionsColumn
      items={items}
      actionsToggle={({ onToggle, isOpen, toggleRef }) => (
        <MenuToggle
          ref={toggleRef}
          variant="plain"
          isExpanded={isOpen}
          onClick={onToggle}
          aria-label={text.rowActions(row.name ?? "")}
          icon={<EllipsisVIcon />}
        />
      )}
      popperProps={{ position: "right", appendTo: mainElement }}
    />
  );
}

const cells: Record<Column, (row: JobRow) => ReactNode> = {
  name: (row) => (
    <>
      <Link to={jobAddress(row)} data-row-link>
        <bdi>{row.name}</bdi>
      </Link>
      <div className="app-cause">{row.kind}</div>
    </>
  ),
  state: (row) => <JobState row={row} />,
  namespace: (row) => row.namespace,
  workers: (row) => (
    <>
      {workersText(row)}
      {row.progress && <JobProgress row={row} />}
    </>
  ),
  queue: (row) =>
    row.queue && (
      <>
        <bdi>{row.queue}</bdi>
        {row.queuePosition !== undefined && ` (${messages.jobs.place(row.queuePosition)})`}
      </>
    ),
  owner: (row) =>
    row.owner && (
      <bdi className="app-owner" title={row.owner}>
        {row.owner}
      </bdi>
    ),
  gpus: (row) => row.gpus,
  created: (row) => <Age time={row.created} />,
  duration: (row) => <Duration from={row.runningSince} to={row.finished} />,
};

function JobProgress({ row }: { row: JobRow }) {
  const { percent = 0, remainingSeconds } = row.progress ?? {};
  const left =
    remainingSeconds !== undefined && row.phase === "Running" ? text.timeLeft(duration(remainingSeconds)) : "";
  return (
    <>
      <Progress
        value={percent}
        size={ProgressSize.sm}
        aria-label={text.progress(row.name ?? "")}
        label={text.percent(percent)}
        className="app-progress"
      />
      {left && <div className="app-cause">{left}</div>}
    </>
  );
}

/** Up and down lead from one job's link to the next, space selects the job. */
function moveBetweenRows(event: KeyboardEvent<HTMLTableElement>): void {
  const { target, key } = event;
  if (!(target instanceof HTMLAnchorElement) || !("rowLink" in target.dataset)) return;
  const links = [...event.currentTarget.querySelectorAll<HTMLAnchorElement>("a[data-row-link]")];
  const at = links.indexOf(target);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[key];
  if (next !== undefined) links[next]?.focus();
  else if (key === " ") target.closest("tr")?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click();
  else return;
  event.preventDefault();
}
