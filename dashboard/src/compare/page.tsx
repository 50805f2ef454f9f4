// Compares jobs that the address names: how each ended, where their configurations differ, and what their programs reported.

import "../job/job.css";
import {
  Button,
  Card,
  CardBody,
  CardTitle,
  Flex,
  FlexItem,
  PageSection,
  Switch,
  TextInput,
} from "@patternfly/react-core";
import TimesIcon from "@patternfly/react-icons/dist/esm/icons/times-icon";
import { type FormEvent, lazy, Suspense, useState } from "react";
import { Link, useSearchParams } from "react-router-dom";
import { kindOf } from "../api/client";
import { hasCode } from "../api/problem";
import { PageHeader } from "../components/page-header";
import { ErrorState, LoadingLines, NothingHere } from "../components/states";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { ComparisonTable } from "./table";
import { type Compared, fewest, most, useComparison } from "./use-comparison";

const text = messages.compare;
const RunCharts = lazy(async () => ({ default: (await import("./run-charts")).RunCharts }));

export function ComparePage() {
  const [address, setAddress] = useSearchParams();
  const namespace = address.get("namespace") ?? "";
  const kind = kindOf(address.get("kind") ?? undefined);
  const names = [...new Set(address.getAll("name"))].slice(0, most);
  const onlyDifferences = address.get("all") !== "true";
  const comparison = useComparison({ namespace, kind, names });
  const change = (edit: (query: URLSearchParams) => void) =>
    setAddress((before) => {
      const after = new URLSearchParams(before);
      edit(after);
      return after;
    });
  const choose = (to: string[]) =>
    change((query) => {
      query.delete("name");
      for (const name of to) query.append("name", name);
    });
  const head = (name: string) => (
    <Flex
      flexWrap={{ default: "nowrap" }}
      columnGap={{ default: "columnGapMd" }}
      alignItems={{ default: "alignItemsCenter" }}
    >
      <Link to={jobAddress({ namespace, kind, name })} className="compare-head">
        <bdi>{name}</bdi>
      </Link>
      {names.length > fewest && (
        <Button
          variant="plain"
          size="sm"
          icon={<TimesIcon />}
          aria-label={text.remove(name)}
          onClick={() => choose(names.filter((one) => one !== name))}
        />
      )}
    </Flex>
  );
  const isComplete = Boolean(namespace) && names.length >= fewest;
  return (
    <>
      <PageHeader title={text.title} description={isComplete ? text.of(names.length) : undefined} />
      <PageSection isFilled>
        {isComplete && (
          <Flex justifyContent={{ default: "justifyContentSpaceBetween" }} className="compare-tools">
            <FlexItem>
              <Switch
                id="compare-only"
                label={text.onlyDifferences}
                isChecked={onlyDifferences}
                onChange={(_event, only) => change((query) => (only ? query.delete("all") : query.set("all", "true")))}
              />
            </FlexItem>
            {names.length < most && (
              <FlexItem>
                <AddJob onAdd={(name) => choose([...names, name])} />
              </FlexItem>
            )}
          </Flex>
        )}
        {!isComplete ? (
          <NothingHere title={text.none} actions={<Link to="/jobs">{text.toJobs}</Link>}>
            {text.noneBody}
          </NothingHere>
        ) : comparison.error ? (
          <>
            <ErrorState error={comparison.error} onRetry={() => void comparison.refetch()} />
            {hasCode(comparison.error, "NotFound") && <Removable names={names} onRemove={choose} />}
          </>
        ) : comparison.data ? (
          <>
            <Part
              title={text.outcome}
              {...comparison.data}
              rows={comparison.data.outcome}
              only={onlyDifferences}
              head={head}
            />
            <Part title={text.differences} {...comparison.data} rows={comparison.data.differences} only head={head} />
            {comparison.data.metrics.length > 0 && (
              <Part
                title={text.metrics}
                {...comparison.data}
                rows={comparison.data.metrics}
                only={onlyDifferences}
                head={head}
              />
            )}
            <Suspense fallback={<LoadingLines lines={4} />}>
              <RunCharts namespace={namespace} kind={kind} names={names} />
            </Suspense>
          </>
        ) : (
          <LoadingLines lines={10} />
        )}
      </PageSection>
    </>
  );
}

type PartProps = {
  title: string;
  columns: string[];
  rows: Compared[];
  only: boolean;
  head: (name: string) => React.ReactNode;
};

function Part({ title, columns, rows, only, head }: PartProps) {
  const shown = only ? rows.filter((row) => !row.same) : rows;
  return (
    <Card className="compare-part">
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        {shown.length ? (
          <ComparisonTable label={title} columns={columns} rows={shown} head={head} />
        ) : (
          <p>{rows.length ? text.allSame : text.noDifferences}</p>
        )}
      </CardBody>
    </Card>
  );
}

function AddJob({ onAdd }: { onAdd: (name: string) => void }) {
  const [name, setName] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (name.trim()) onAdd(name.trim());
    setName("");
  };
  return (
    <form onSubmit={submit} className="compare-add">
      <TextInput
        aria-label={text.addLabel}
        placeholder={text.addLabel}
        value={name}
        onChange={(_event, to) => setName(to)}
      />
      <Button type="submit" variant="secondary">
        {text.add}
      </Button>
    </form>
  );
}

/** Where a job is gone, the person can leave it out. */
function Removable({ names, onRemove }: { names: string[]; onRemove: (names: string[]) => void }) {
  return (
    <>
      <p>{text.gone}</p>
      {names.map((name) => (
        <Button key={name} variant="link" onClick={() => onRemove(names.filter((one) => one !== name))}>
          {text.remove(name)}
        </Button>
      ))}
    </>
  );
}
