// Who did what through the service, the newest first, page by page.

import { Button, Label, TextInput, Toolbar, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { ask, client, type Schemas } from "../api/client";
import { serviceRoot } from "../api/root";
import { DataTable } from "../components/data-table";
import { ErrorState, LoadingLines, NothingHere } from "../components/states";
import { Exact } from "../components/time";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";
import { objectsOf, type Result, resultOf } from "./audit-result";

const text = messages.admin.audit;
type Operation = Schemas["AuditedOperation"];
type Filter = { who?: string; object?: string; since?: string };

export function Audit() {
  const [namespace] = useNamespace();
  const [filter, setFilter] = useState<Filter>({ since: "7d" });
  const query = { ...filter, ...(namespace && { namespace }) };
  const audit = useInfiniteQuery({
    queryKey: ["audit", query],
    initialPageParam: "",
    queryFn: ({ pageParam, signal }) =>
      ask(
        client.GET("/api/v1/audit", {
          params: { query: { ...query, newestFirst: true, ...(pageParam && { continue: pageParam }) } },
          signal,
        }),
      ),
    getNextPageParam: (page) => page.continue || undefined,
  });
  const operations = audit.data?.pages.flatMap((page) => page.operations) ?? [];
  return (
    <>
      <Filters filter={filter} onFilter={setFilter} />
      {audit.error ? (
        <ErrorState error={audit.error} onRetry={() => void audit.refetch()} />
      ) : !audit.data ? (
        <LoadingLines />
      ) : operations.length ? (
        <Operations operations={operations} />
      ) : (
        <NothingHere title={text.none} />
      )}
      {audit.hasNextPage && (
        <Button variant="link" isLoading={audit.isFetchingNextPage} onClick={() => void audit.fetchNextPage()}>
          {text.more}
        </Button>
      )}
    </>
  );
}

function Filters({ filter, onFilter }: { filter: Filter; onFilter: (filter: Filter) => void }) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const fields = new FormData(event.currentTarget);
    const entries = ["who", "object", "since"].map((name) => [name, String(fields.get(name) ?? "").trim()]);
    onFilter(Object.fromEntries(entries.filter(([, value]) => value)));
  };
  return (
    <form onSubmit={submit}>
      <Toolbar>
        <ToolbarContent>
          {(["who", "object", "since"] as const).map((name) => (
            <ToolbarItem key={name}>
              <TextInput
                name={name}
                aria-label={text[name]}
                placeholder={text[name]}
                defaultValue={filter[name]}
                autoComplete="off"
              />
            </ToolbarItem>
          ))}
          <ToolbarItem>
            <Button type="submit" variant="secondary">
              {text.apply}
            </Button>
          </ToolbarItem>
          <ToolbarItem>
            <Button component="a" variant="link" href={`${serviceRoot}/api/v1/audit/export`} download="audit.jsonl">
              {text.export}
            </Button>
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
    </form>
  );
}

function Operations({ operations }: { operations: Operation[] }) {
  const first = ({ lines }: Operation) => lines[0];
  return (
    <DataTable
      label={messages.admin.tabs.audit}
      rows={operations}
      rowKey={(one) => `${one.request}/${first(one)?.number}`}
      columns={[
        { label: text.at, cell: (one) => <Exact time={first(one)?.at} /> },
        { label: text.who, cell: (one) => <bdi>{first(one)?.who}</bdi> },
        { label: text.verb, cell: (one) => `${first(one)?.verb ?? ""} ${first(one)?.resource ?? ""}` },
        { label: text.where, cell: (one) => first(one)?.namespace },
        { label: text.object, cell: ({ lines }) => <Objects names={objectsOf(lines)} /> },
        { label: text.address, cell: (one) => <span className="app-nowrap">{first(one)?.address}</span> },
        { label: text.result, cell: ({ lines }) => <ResultOf result={resultOf(lines)} /> },
      ]}
    />
  );
}

const mostNames = 3;

function Objects({ names }: { names: string[] }) {
  const others = names.slice(mostNames);
  return (
    <bdi title={others.length ? names.join(", ") : undefined}>
      {names.slice(0, mostNames).join(", ")}
      {others.length > 0 && ` ${text.andMore(others.length)}`}
    </bdi>
  );
}

function ResultOf({ result }: { result: Result }) {
  if (result.kind === "unknown") return text.open;
  const isGood = result.kind === "accepted" || result.status < 400;
  return (
    <>
      <Label className="app-label" isCompact status={isGood ? "success" : "danger"}>
        {result.kind === "accepted" ? text.accepted : result.status}
      </Label>{" "}
      {result.kind === "answered" && <bdi>{result.reason}</bdi>}
    </>
  );
}
