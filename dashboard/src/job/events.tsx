// Events of the job and everything that belongs to it, in one list, the newest first.

import {
  Button,
  FormSelect,
  FormSelectOption,
  Label,
  Popover,
  SearchInput,
  Switch,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useState } from "react";
import { Sentence } from "../components/sentences";
import { ErrorAlert, ErrorState, LoadingLines, NothingHere } from "../components/states";
import { clock } from "../format/time";
import { messages } from "../messages";
import { MomentButton, placeOf, useMoment } from "./cursor";
import { type EventFilter, type EventGroup, groupEvents, matches } from "./event-groups";
import { readable } from "./logs/text";
import type { JobTab } from "./tab";
import { useJobEvents } from "./use-job";

const text = messages.job.events;

export function Events({ jobRef, live }: JobTab) {
  const events = useJobEvents(jobRef, live);
  const [filter, setFilter] = useState<EventFilter>({ search: "", type: "" });
  const [alike, setAlike] = useState(true);
  if (events.error && !events.data) return <ErrorState error={events.error} onRetry={() => void events.refetch()} />;
  if (!events.data) return <LoadingLines lines={8} />;
  if (!events.data.length) return <NothingHere title={text.empty}>{text.emptyBody}</NothingHere>;
  const groups = groupEvents(events.data, alike).filter((group) => matches(group, filter));
  return (
    <>
      {events.error && (
        <ErrorAlert error={events.error} title={messages.job.stale} onRetry={() => void events.refetch()} />
      )}
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem>
            <SearchInput
              className="app-search"
              aria-label={text.search}
              placeholder={text.search}
              value={filter.search}
              onChange={(_event, search) => setFilter({ ...filter, search })}
              onClear={() => setFilter({ ...filter, search: "" })}
            />
          </ToolbarItem>
          <ToolbarItem>
            <FormSelect
              aria-label={text.type}
              value={filter.type}
              onChange={(_event, type) => setFilter({ ...filter, type: type as EventFilter["type"] })}
            >
              <FormSelectOption value="" label={text.all} />
              <FormSelectOption value="Warning" label={text.warning} />
              <FormSelectOption value="Normal" label={text.normal} />
            </FormSelect>
          </ToolbarItem>
          <ToolbarItem alignSelf="center">
            <Switch id="events-alike" label={text.alike} isChecked={alike} onChange={(_event, on) => setAlike(on)} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {groups.length ? <EventTable groups={groups} /> : <NothingHere title={text.none} />}
    </>
  );
}

function EventTable({ groups }: { groups: EventGroup[] }) {
  const [at] = useMoment();
  // The list begins with the newest.
  const oldestFirst = [...groups].reverse();
  const marked =
    oldestFirst[
      placeOf(
        oldestFirst.map((group) => Date.parse(group.last)),
        at,
      )
    ];
  return (
    <div className="app-scroll-x">
      <Table aria-label={text.table} className="app-table" variant="compact" gridBreakPoint="grid-lg">
        <Thead>
          <Tr>
            {(["time", "type", "reason", "object", "message", "count"] as const).map((column) => (
              <Th key={column} modifier={column === "message" ? "wrap" : "nowrap"}>
                {text.columns[column]}
              </Th>
            ))}
          </Tr>
        </Thead>
        <Tbody>
          {groups.map((group) => (
            <Tr key={group.key} className={group === marked ? "job-marked" : undefined}>
              <Td dataLabel={text.columns.time} modifier="nowrap">
                {group.last && <MomentButton time={group.last} what={group.reason} />}
              </Td>
              <Td dataLabel={text.columns.type}>
                <span>
                  <Label
                    className="app-label"
                    isCompact
                    status={group.type === "Warning" ? "warning" : "info"}
                    variant="outline"
                  >
                    {group.type === "Warning" ? text.warning : text.normal}
                  </Label>
                </span>
              </Td>
              <Td dataLabel={text.columns.reason}>
                <bdi>{group.reason}</bdi>
              </Td>
              <Td dataLabel={text.columns.object}>
                <Objects group={group} />
              </Td>
              <Td dataLabel={text.columns.message} className="job-wrap">
                <Sentence text={readable(group.message)} />
              </Td>
              <Td dataLabel={text.columns.count}>
                {group.count > 1 ? (
                  <span title={text.between(clock(group.first), clock(group.last))}>{group.count}</span>
                ) : (
                  group.count
                )}
              </Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </div>
  );
}

function Objects({ group: { objects } }: { group: EventGroup }) {
  const [first = "", ...others] = objects;
  if (!others.length) return <bdi>{first}</bdi>;
  return (
    <Popover
      aria-label={text.objects(objects.length)}
      bodyContent={
        <ul className="job-objects">
          {objects.map((object) => (
            <li key={object}>
              <bdi>{object}</bdi>
            </li>
          ))}
        </ul>
      }
    >
      <Button variant="link" isInline>
        <bdi>{text.andMore(first, others.length)}</bdi>
      </Button>
    </Popover>
  );
}
