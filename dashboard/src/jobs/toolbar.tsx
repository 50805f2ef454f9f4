// Filters, views, columns and actions on the selected jobs.

import {
  SearchInput,
  Toolbar,
  ToolbarContent,
  ToolbarFilter,
  ToolbarGroup,
  ToolbarItem,
  ToolbarToggleGroup,
} from "@patternfly/react-core";
import FilterIcon from "@patternfly/react-icons/dist/esm/icons/filter-icon";
import { useEffect, useState } from "react";
import { type Kind, kinds } from "../api/client";
import { useIdentity } from "../api/identity";
import { ChoiceMenu } from "../components/choice-menu";
import { sentence } from "../format/words";
import { messages } from "../messages";
import { BulkActions } from "./bulk-actions";
import { CreatedFilter, createdText } from "./created-filter";
import { type Column, columns, type MetricColumn, noFilters, phases, type View } from "./filter";
import { columnChoices, columnTitle, type KnownMetrics } from "./metric-columns";
import type { Select, Selection } from "./selection";
import { ViewsMenu } from "./views";

const text = messages.jobs;
const typingPause = 250;

type Props = {
  view: View;
  change: (change: Partial<View>, replace?: boolean) => void;
  isLoading: boolean;
  total: number | undefined;
  selection: Selection;
  select: Select;
  metrics: KnownMetrics | undefined;
  /** Has the values of metrics loaded, so that they can be chosen. */
  offerMetrics: () => void;
};

export function JobsToolbar({ view, change, isLoading, total, selection, select, metrics, offerMetrics }: Props) {
  return (
    <Toolbar
      clearAllFilters={() => change(noFilters)}
      clearFiltersButtonText={text.filters.clear}
      collapseListedFiltersBreakpoint="lg"
    >
      <ToolbarContent>
        <ToolbarToggleGroup toggleIcon={<FilterIcon />} breakpoint="lg" aria-label={text.filters.show}>
          <Filters view={view} change={change} />
        </ToolbarToggleGroup>
      </ToolbarContent>
      <ToolbarContent alignItems="center">
        <ToolbarItem>
          <span role="status">
            {isLoading ? messages.common.loading : total === undefined ? "" : text.count(total)}
          </span>
          {selection.size > 0 && <strong className="app-selected">{text.selected(selection.size)}</strong>}
        </ToolbarItem>
        <ToolbarGroup align={{ default: "alignEnd" }} variant="action-group" className="app-wrap">
          <ToolbarItem>
            <ViewsMenu />
          </ToolbarItem>
          <ToolbarItem>
            <ColumnsMenu view={view} change={change} metrics={metrics} offerMetrics={offerMetrics} />
          </ToolbarItem>
          <ToolbarItem>
            <BulkActions selection={selection} select={select} />
          </ToolbarItem>
        </ToolbarGroup>
      </ToolbarContent>
    </Toolbar>
  );
}

function ColumnsMenu({
  view,
  change,
  metrics,
  offerMetrics,
}: Pick<Props, "view" | "change" | "metrics" | "offerMetrics">) {
  const own = columns.filter((column) => column !== "name");
  const options = [
    ...own.map((column): [string, string] => [column, text.columns[column]]),
    ...columnChoices(metrics, view.metrics).map((column): [string, string] => [column, columnTitle(column)]),
  ];
  const isOwn = (value: string): value is Column => columns.some((column) => column === value);
  const toggle = (value: string) =>
    isOwn(value)
      ? { columns: toggledColumns(view.columns, value) }
      : { metrics: toggled(view.metrics, value) as MetricColumn[] };
  return (
    <ChoiceMenu
      label={text.columnsToggle}
      options={options}
      chosen={[...view.columns, ...view.metrics]}
      onOpen={offerMetrics}
      onToggle={(value) => change({ ...toggle(value), pages: view.pages }, true)}
      isScrollable
    />
  );
}

function Filters({ view, change }: Pick<Props, "view" | "change">) {
  const me = useIdentity().data?.user;
  const mine = me !== undefined && view.owner === me;
  return (
    <ToolbarGroup variant="filter-group">
      <ToolbarItem>
        <TypedSearch label={text.search} value={view.q} onChange={(q) => change({ q }, true)} />
      </ToolbarItem>
      <ToolbarFilter
        categoryName={text.filters.phase}
        labels={view.phase.map((phase) => ({ key: phase, node: sentence(phase) }))}
        deleteLabel={(_category, label) => change({ phase: without(view.phase, keyOf(label)) })}
        deleteLabelGroup={() => change({ phase: [] })}
      >
        <ChoiceMenu
          label={text.filters.phase}
          options={phases.map((phase) => [phase, sentence(phase)])}
          chosen={view.phase}
          onToggle={(phase) => change({ phase: toggled(view.phase, phase) })}
        />
      </ToolbarFilter>
      <ToolbarFilter
        categoryName={text.filters.kind}
        labels={view.kind.map((kind) => ({ key: kind, node: messages.common.kinds[kind] }))}
        deleteLabel={(_category, label) => change({ kind: without(view.kind, keyOf(label)) as Kind[] })}
        deleteLabelGroup={() => change({ kind: [] })}
      >
        <ChoiceMenu
          label={text.filters.kind}
          options={kinds.map((kind) => [kind, messages.common.kinds[kind]])}
          chosen={view.kind}
          onToggle={(kind) => change({ kind: toggled(view.kind, kind) as Kind[] })}
        />
      </ToolbarFilter>
      <ToolbarFilter
        categoryName={text.filters.created}
        labels={view.since || view.until ? [{ key: "created", node: createdText(view) }] : []}
        deleteLabel={() => change({ since: "", until: "" })}
      >
        <CreatedFilter view={view} change={change} />
      </ToolbarFilter>
      <ToolbarFilter
        categoryName={text.filters.owner}
        labels={view.owner ? [{ key: view.owner, node: <bdi>{view.owner}</bdi> }] : []}
        deleteLabel={() => change({ owner: "" })}
      >
        <ChoiceMenu
          label={text.filters.owner}
          options={me ? [[me, text.filters.mine]] : []}
          chosen={mine ? [view.owner] : []}
          onToggle={(owner) => change({ owner: mine ? "" : owner })}
          entry={{ label: text.filters.ownerPlaceholder, onEnter: (owner) => change({ owner }) }}
        />
      </ToolbarFilter>
    </ToolbarGroup>
  );
}

/** A search that waits until the person pauses. */
function TypedSearch({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => onChange(typed), typingPause);
    return () => clearTimeout(timer);
  }, [typed, value, onChange]);
  return (
    <SearchInput
      aria-label={label}
      placeholder={label}
      value={typed}
      onChange={(_event, text) => setTyped(text)}
      onClear={() => setTyped("")}
      className="app-search"
    />
  );
}

function keyOf(label: string | { key: string }): string {
  return typeof label === "string" ? label : label.key;
}

function without(values: readonly string[], value: string): string[] {
  return values.filter((one) => one !== value);
}

function toggled(values: readonly string[], value: string): string[] {
  return values.includes(value) ? without(values, value) : [...values, value];
}

function toggledColumns(shown: readonly Column[], column: Column): Column[] {
  const after = toggled(shown, column);
  return columns.filter((one) => after.includes(one));
}
