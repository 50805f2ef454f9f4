// Chooses what to see of a log. Everything is in the address; how lines look is kept in the browser.

import {
  Button,
  FormSelect,
  FormSelectOption,
  MenuToggle,
  SearchInput,
  Select,
  SelectGroup,
  SelectList,
  SelectOption,
  TextInput,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from "@patternfly/react-core";
import CogIcon from "@patternfly/react-icons/dist/esm/icons/cog-icon";
import { type FormEvent, useEffect, useState } from "react";
import { messages } from "../../messages";
import { mainElement } from "../../shell/main-element";
import type { Columns } from "./line-row";
import { type LogQuery, levels, numbers, ranges } from "./query";

const text = messages.job.logs;
const contexts = [0, 2, 5, 20];

type Props = {
  query: LogQuery;
  change: (change: Partial<LogQuery>) => void;
  columns: Columns;
  setColumns: (columns: Columns) => void;
  /** Whether the pods have numbers, so that some can be chosen. */
  hasWorkers: boolean;
  children: React.ReactNode;
};

/** Narrower than PatternFly's `lg`, the tools take several rows. */
const wraps = { default: "wrap", lg: "nowrap" } as const;

export function LogToolbar({ query, change, columns, setColumns, hasWorkers, children }: Props) {
  return (
    <Toolbar className="log-toolbar" aria-label={text.options}>
      <ToolbarContent>
        <ToolbarGroup rowWrap={wraps}>
          <Source query={query} change={change} hasWorkers={hasWorkers} />
          <ToolbarItem>
            <Typed
              value={ranges(query.ranks)}
              label={text.ranks}
              placeholder={`${text.ranks} ${text.ranksPlaceholder}`}
              title={text.ranksHint}
              onDone={(value) => change({ ranks: numbers(value) })}
            />
          </ToolbarItem>
          <ToolbarItem>
            <FormSelect
              aria-label={text.level}
              value={query.level}
              onChange={(_event, level) => change({ level: levels.find((one) => one === level) ?? "" })}
            >
              {levels.map((level) => (
                <FormSelectOption key={level} value={level} label={text.levels[level]} />
              ))}
            </FormSelect>
          </ToolbarItem>
        </ToolbarGroup>
        <ToolbarGroup rowWrap={wraps}>
          <ToolbarItem>
            <Search query={query} change={change} />
          </ToolbarItem>
          <ToolbarItem>
            <FormSelect
              aria-label={text.context}
              value={String(query.context)}
              isDisabled={!query.search}
              onChange={(_event, context) => change({ context: Number(context) })}
            >
              {[...new Set([...contexts, query.context])].map((lines) => (
                <FormSelectOption key={lines} value={String(lines)} label={text.contextOf(lines)} />
              ))}
            </FormSelect>
          </ToolbarItem>
          <ToolbarItem>
            <Options query={query} change={change} columns={columns} setColumns={setColumns} />
          </ToolbarItem>
        </ToolbarGroup>
        <ToolbarGroup align={{ default: "alignEnd" }} rowWrap={wraps}>
          {children}
        </ToolbarGroup>
      </ToolbarContent>
    </Toolbar>
  );
}

function Source({ query, change, hasWorkers }: Pick<Props, "query" | "change" | "hasWorkers">) {
  const some = typeof query.from !== "string";
  return (
    <>
      <ToolbarItem>
        <FormSelect
          aria-label={text.from}
          value={some ? "some" : (query.from as string)}
          onChange={(_event, value) => change({ from: value === "some" ? [0] : value === "all" ? "all" : "launcher" })}
        >
          <FormSelectOption value="launcher" label={text.launcher} />
          <FormSelectOption value="all" label={text.all} />
          {hasWorkers && <FormSelectOption value="some" label={text.some} />}
        </FormSelect>
      </ToolbarItem>
      {some && (
        <ToolbarItem>
          <Typed
            value={ranges(query.from as number[])}
            label={text.someLabel}
            placeholder={text.somePlaceholder}
            onDone={(value) => {
              const workers = numbers(value);
              change({ from: workers.length ? workers : "launcher" });
            }}
          />
        </ToolbarItem>
      )}
    </>
  );
}

type TypedProps = {
  value: string;
  label: string;
  placeholder: string;
  title?: string;
  onDone: (value: string) => void;
};

/** A text that counts once it is finished: with Enter, or when the person goes on. */
function Typed({ value, label, placeholder, title, onDone }: TypedProps) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const done = () => {
    if (typed !== value) onDone(typed);
  };
  return (
    <TextInput
      aria-label={label}
      placeholder={placeholder}
      title={title}
      value={typed}
      className="log-typed"
      onChange={(_event, to) => setTyped(to)}
      onBlur={done}
      onKeyDown={(event) => event.key === "Enter" && done()}
    />
  );
}

function Search({ query, change }: Pick<Props, "query" | "change">) {
  const [typed, setTyped] = useState(query.search);
  useEffect(() => setTyped(query.search), [query.search]);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change({ search: typed });
  };
  return (
    <form onSubmit={submit} className="log-search">
      <SearchInput
        aria-label={text.search}
        placeholder={text.search}
        value={typed}
        onChange={(_event, value) => setTyped(value)}
        onSearch={(event) => {
          event.preventDefault();
          change({ search: typed });
        }}
        onClear={() => change({ search: "", context: 0 })}
      />
      <Button
        variant={query.regex ? "primary" : "control"}
        aria-label={text.regex}
        title={text.regex}
        aria-pressed={query.regex}
        onClick={() => change({ regex: !query.regex, search: typed })}
      >
        .*
      </Button>
      <Button
        variant={query.matchCase ? "primary" : "control"}
        aria-label={text.matchCase}
        title={text.matchCase}
        aria-pressed={query.matchCase}
        onClick={() => change({ matchCase: !query.matchCase, search: typed })}
      >
        Aa
      </Button>
    </form>
  );
}

function Options({ query, change, columns, setColumns }: Pick<Props, "query" | "change" | "columns" | "setColumns">) {
  const [open, setOpen] = useState(false);
  const ofQuery = ["fold", "whole", "previous"] as const;
  const ofColumns = ["times", "pods", "wrap"] as const;
  const select = (value: unknown) => {
    const inQuery = ofQuery.find((one) => one === value);
    const inColumns = ofColumns.find((one) => one === value);
    if (inQuery) change({ [inQuery]: !query[inQuery] });
    if (inColumns) setColumns({ ...columns, [inColumns]: !columns[inColumns] });
  };
  return (
    <Select
      role="menu"
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={(_event, value) => select(value)}
      popperProps={{ position: "right", appendTo: mainElement }}
      toggle={(toggle) => (
        <MenuToggle ref={toggle} icon={<CogIcon />} isExpanded={open} onClick={() => setOpen(!open)}>
          {text.options}
        </MenuToggle>
      )}
    >
      <SelectGroup>
        <SelectList>
          {ofQuery.map((one) => (
            <SelectOption key={one} value={one} hasCheckbox isSelected={query[one]}>
              {text[one]}
            </SelectOption>
          ))}
          {ofColumns.map((one) => (
            <SelectOption key={one} value={one} hasCheckbox isSelected={columns[one]}>
              {text[one]}
            </SelectOption>
          ))}
        </SelectList>
      </SelectGroup>
    </Select>
  );
}
