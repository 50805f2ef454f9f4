// All pods of the job: as a table with everything about each, or as a grid.

import {
  Button,
  Card,
  CardBody,
  EmptyStateActions,
  FormSelect,
  FormSelectOption,
  SearchInput,
  ToggleGroup,
  ToggleGroupItem,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import CubesIcon from "@patternfly/react-icons/dist/esm/icons/cubes-icon";
import { ExpandableRowContent, Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useState } from "react";
import { useSearchParams } from "react-router-dom";
import { NothingHere } from "../components/states";
import { Age } from "../components/time";
import { messages } from "../messages";
import { countBy, type Health, healths, stateText, workersOf } from "./health";
import { type Manifest, ranksOf, roleOf } from "./manifest";
import { PodDetails } from "./pod-details";
import { type Column, columns, comparePods, type Entry, entriesOf, matchesPod } from "./pod-table";
import { Shape } from "./shape";
import type { JobTab } from "./tab";
import { useJobEvents } from "./use-job";
import { WorkerGrid } from "./worker-grid";

const text = messages.job.workers;
// A table of thousands of rows is slow to draw, and nobody reads it.
const pageSize = 200;

export function Workers({ job, jobRef, manifest, live }: JobTab) {
  const [address, setAddress] = useSearchParams();
  const { data: events = [] } = useJobEvents(jobRef, live);
  const put = (name: string, value: string) =>
    setAddress(
      (before) => {
        const after = new URLSearchParams(before);
        if (value) after.set(name, value);
        else after.delete(name);
        return after;
      },
      { replace: true, preventScrollReset: true },
    );
  const chosen = address.get("worker");
  const search = address.get("find") ?? "";
  const health = healths.find((one) => one === address.get("health"));
  const isGrid = address.get("view") === "grid";
  const workers = workersOf(job);
  const entries = entriesOf(job, text.name);
  const shown = entries.filter((entry) => matchesPod(entry, search, health));
  const chosenWorker = workers.find(({ index }) => String(index) === chosen);
  return (
    <>
      <WorkersToolbar search={search} health={health} isGrid={isGrid} counts={countBy(workers)} put={put} />
      {isGrid ? (
        <Card>
          <CardBody>
            <WorkerGrid
              workers={workers.filter((worker) => !health || worker.health === health)}
              manifest={manifest}
              chosen={chosen === null ? undefined : Number(chosen)}
              onChoose={(index) => put("worker", index === undefined ? "" : String(index))}
            />
            <div aria-live="polite">
              {chosenWorker?.pod && (
                <>
                  <h2 className="job-subtitle">
                    <bdi>{chosenWorker.pod.name}</bdi>
                  </h2>
                  <PodDetails
                    key={chosenWorker.pod.name}
                    jobRef={jobRef}
                    pod={chosenWorker.pod}
                    state={stateText(chosenWorker)}
                    manifest={manifest}
                    events={events}
                    heading="h3"
                  />
                </>
              )}
            </div>
          </CardBody>
        </Card>
      ) : shown.length ? (
        <PodTable
          entries={shown}
          manifest={manifest}
          open={chosen}
          onOpen={(key) => put("worker", key)}
          details={({ pod, health, state, exists }) =>
            exists ? (
              <PodDetails
                jobRef={jobRef}
                pod={pod}
                state={stateText({ health, state })}
                manifest={manifest}
                events={events}
                heading="h2"
              />
            ) : (
              <p className="job-note">{live ? text.notYet : text.removed}</p>
            )
          }
        />
      ) : entries.length ? (
        <NothingHere
          title={text.none}
          actions={
            <EmptyStateActions>
              <Button variant="link" onClick={() => setAddress({}, { replace: true })}>
                {messages.jobs.filters.clear}
              </Button>
            </EmptyStateActions>
          }
        >
          {text.noneBody}
        </NothingHere>
      ) : (
        <NothingHere title={text.noPods} icon={CubesIcon}>
          {live ? text.noPodsYet : text.noPodsEnded}
        </NothingHere>
      )}
    </>
  );
}

type ToolbarProps = {
  search: string;
  health: Health | undefined;
  isGrid: boolean;
  counts: [Health, number][];
  put: (name: string, value: string) => void;
};

function WorkersToolbar({ search, health, isGrid, counts, put }: ToolbarProps) {
  return (
    <Toolbar>
      <ToolbarContent>
        <ToolbarItem>
          <SearchInput
            aria-label={text.search}
            placeholder={text.search}
            value={search}
            onChange={(_event, value) => put("find", value)}
            onClear={() => put("find", "")}
            className="app-search"
          />
        </ToolbarItem>
        <ToolbarItem>
          <FormSelect
            aria-label={text.columns.state}
            value={health ?? ""}
            onChange={(_event, value) => put("health", value)}
          >
            <FormSelectOption value="" label={text.all} />
            {healths.map((one) => {
              const count = counts.find(([of]) => of === one)?.[1] ?? 0;
              return (
                <FormSelectOption key={one} value={one} label={`${text.health[one]} (${count})`} isDisabled={!count} />
              );
            })}
          </FormSelect>
        </ToolbarItem>
        <ToolbarItem align={{ default: "alignEnd" }}>
          <ToggleGroup aria-label={text.view}>
            <ToggleGroupItem text={text.table} isSelected={!isGrid} onChange={() => put("view", "")} />
            <ToggleGroupItem text={text.gridView} isSelected={isGrid} onChange={() => put("view", "grid")} />
          </ToggleGroup>
        </ToolbarItem>
      </ToolbarContent>
    </Toolbar>
  );
}

type TableProps = {
  entries: Entry[];
  manifest: Manifest;
  /** The key of the row whose details are shown. */
  open: string | null;
  onOpen: (key: string) => void;
  details: (entry: Entry) => React.ReactNode;
};

function PodTable({ entries, manifest, open, onOpen, details }: TableProps) {
  const [sort, setSort] = useState<{ by: Column; down: boolean }>({ by: "pod", down: false });
  const [most, setMost] = useState(pageSize);
  const sorted = [...entries].sort(comparePods(sort.by, sort.down));
  const isOpen = (entry: Entry) => open === keyOf(entry);
  return (
    <>
      <div className="app-scroll-x">
        <Table aria-label={text.title} className="app-table" variant="compact" isExpandable>
          <Thead>
            <Tr>
              <Th screenReaderText={messages.common.details} />
              {columns.map((column, index) => (
                <Th
                  key={column}
                  modifier="nowrap"
                  sort={{
                    columnIndex: index,
                    sortBy: { index: columns.indexOf(sort.by), direction: sort.down ? "desc" : "asc" },
                    onSort: (_event, _index, direction) => setSort({ by: column, down: direction === "desc" }),
                  }}
                >
                  {text.columns[column]}
                </Th>
              ))}
            </Tr>
          </Thead>
          {sorted.slice(0, most).map((entry, index) => (
            <Tbody key={entry.pod.name} isExpanded={isOpen(entry)}>
              <Tr>
                <Td
                  expand={{
                    rowIndex: index,
                    isExpanded: isOpen(entry),
                    onToggle: () => onOpen(isOpen(entry) ? "" : keyOf(entry)),
                    expandId: "pod",
                  }}
                />
                {columns.map((column) => (
                  <Td key={column} dataLabel={text.columns[column]}>
                    {cell(column, entry, manifest)}
                  </Td>
                ))}
              </Tr>
              {isOpen(entry) && (
                <Tr isExpanded>
                  <Td colSpan={columns.length + 1} dataLabel={text.details(entry.pod.name ?? "")}>
                    <ExpandableRowContent>{details(entry)}</ExpandableRowContent>
                  </Td>
                </Tr>
              )}
            </Tbody>
          ))}
        </Table>
      </div>
      {sorted.length > most && (
        <Button variant="link" onClick={() => setMost(most + pageSize)}>
          {text.more(Math.min(pageSize, sorted.length - most))}
        </Button>
      )}
    </>
  );
}

function keyOf({ pod }: Entry): string {
  return pod.role === "Launcher" ? "launcher" : String(pod.index ?? pod.name);
}

function cell(column: Column, { pod, health, state, exists }: Entry, manifest: Manifest): React.ReactNode {
  const role = roleOf(manifest, pod.role);
  const ranks = pod.role === "Launcher" ? undefined : ranksOf(manifest, pod.index);
  switch (column) {
    case "pod":
      return <bdi>{pod.name}</bdi>;
    case "state":
      return (
        <span className="job-state">
          <Shape health={health} /> {stateText({ health, state })}
        </span>
      );
    case "node":
      return pod.node && <bdi>{pod.node}</bdi>;
    case "gpus":
      return pod.gpus || "";
    case "memory":
      return role?.memory;
    case "ranks":
      return ranks && text.ranks(...ranks);
    case "restarts":
      return exists ? pod.restarts : "";
    case "exitCode":
      return pod.exitCode;
    case "age":
      return <Age time={pod.created} />;
  }
}
