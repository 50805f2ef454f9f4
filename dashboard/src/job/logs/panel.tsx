// The log of the job: of its Launcher, any of its Workers, or all pods merged by time, as the service merges, filters and folds it.

import { Button, Label, Spinner, Switch, ToolbarItem } from "@patternfly/react-core";
import CompressIcon from "@patternfly/react-icons/dist/esm/icons/compress-icon";
import DownloadIcon from "@patternfly/react-icons/dist/esm/icons/download-icon";
import ExpandIcon from "@patternfly/react-icons/dist/esm/icons/expand-icon";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useSearchParams } from "react-router-dom";
import { hasCode } from "../../api/problem";
import { recallJson, remember } from "../../browser/storage";
import { ErrorAlert, ErrorState, LoadingLines, NothingHere } from "../../components/states";
import { useToast } from "../../components/toasts";
import { messages } from "../../messages";
import { useMoment } from "../cursor";
import type { JobTab } from "../tab";
import type { Ref } from "../use-job";
import { downloadLog } from "./download-log";
import { useFullScreen } from "./full-screen";
import { highlighter } from "./highlight";
import { LineDialog } from "./line-dialog";
import type { Columns } from "./line-row";
import { Lines } from "./lines";
import { type LogQuery, noMatchHint, readQuery, writeQuery } from "./query";
import { readable } from "./text";
import { LogToolbar } from "./toolbar";
import { type Log, useLog } from "./use-log";

const text = messages.job.logs;
const columnsKey = "training.logs.columns";
const usual: Columns = { times: true, pods: true, wrap: false };

export function Logs({ job, jobRef, live }: JobTab) {
  const [address, setAddress] = useSearchParams();
  const query = useMemo(() => readQuery(address), [address]);
  const change = useCallback(
    (to: Partial<LogQuery>) =>
      setAddress((before) => writeQuery(before, to), { replace: true, preventScrollReset: true }),
    [setAddress],
  );
  // A log that is being followed ends by itself when the job does.
  const [follow] = useState(live);
  const log = useLog(jobRef, query, follow, `${job.row?.uid} ${job.attempts}`);
  const [sticks, setSticks] = useState(true);
  const [columns, setColumns] = useColumns();
  const [isFull, fill] = useFullScreen();
  const [at, choose] = useMoment();
  const [whole, setWhole] = useState<number>();
  const [wanted, want] = useWanted(log, at, address.get("show") === "evidence", setSticks);
  const pattern = useMemo(
    () => highlighter(query.search, query.regex, query.matchCase),
    [query.search, query.regex, query.matchCase],
  );
  const evidence = log.buffer.evidence;
  const wholeLine = whole === undefined ? undefined : log.buffer.at(whole);
  return (
    <>
      <LogToolbar
        query={query}
        change={change}
        columns={columns}
        setColumns={setColumns}
        hasWorkers={job.row?.kind === "MPIJob" || job.pods.some((pod) => pod.role === "Worker")}
      >
        {evidence.length > 0 && (
          <ToolbarItem>
            <Button variant="secondary" onClick={() => want(nextOf(evidence, wanted?.number))}>
              {text.nextEvidence} ({evidence.length})
            </Button>
          </ToolbarItem>
        )}
        {live && (
          <ToolbarItem alignSelf="center">
            <Switch id="log-follow" label={text.follow} isChecked={sticks} onChange={(_event, on) => setSticks(on)} />
          </ToolbarItem>
        )}
        <ToolbarItem>
          <Download jobRef={jobRef} query={query} />
        </ToolbarItem>
        {fill && (
          <ToolbarItem>
            <Button
              variant="control"
              icon={isFull ? <CompressIcon /> : <ExpandIcon />}
              aria-label={isFull ? text.leaveFullScreen : text.fullScreen}
              title={isFull ? text.leaveFullScreen : text.fullScreen}
              onClick={fill}
            />
          </ToolbarItem>
        )}
      </LogToolbar>
      <Body log={log} query={query} live={live}>
        <Lines
          buffer={log.buffer}
          version={log.version}
          columns={columns}
          pattern={pattern}
          at={at}
          sticks={sticks}
          onStick={setSticks}
          wanted={wanted}
          onChoose={choose}
          onWhole={setWhole}
        />
      </Body>
      <Foot log={log} />
      {wholeLine && <LineDialog line={wholeLine} onClose={() => setWhole(undefined)} />}
    </>
  );
}

function Body({ log, query, live, children }: { log: Log; query: LogQuery; live: boolean; children: React.ReactNode }) {
  const { state } = log;
  if (log.buffer.size) {
    return (
      <>
        {state.state === "failed" && <ErrorAlert error={state.error} title={text.states.failed} onRetry={log.again} />}
        {children}
      </>
    );
  }
  const narrowed = Boolean(query.search || query.level || query.ranks.length);
  if (state.state === "failed") {
    if (hasCode(state.error, "NotFound")) return <NothingHere title={text.removed}>{state.error.message}</NothingHere>;
    return <ErrorState error={state.error} onRetry={log.again} />;
  }
  if (state.state === "waiting")
    return (
      <NothingHere title={text.empty} icon={Spinner}>
        <bdi>{readable(state.text)}</bdi>
      </NothingHere>
    );
  if (state.state === "ended" && narrowed) return <NothingHere title={text.noMatch}>{noMatchHint(query)}</NothingHere>;
  if (state.state === "ended") return <NothingHere title={live ? text.empty : text.emptyEnded} />;
  return (
    <div className="log-frame">
      <div className="log-view">
        <LoadingLines lines={8} />
      </div>
    </div>
  );
}

function Foot({ log: { buffer, state } }: { log: Log }) {
  const looks = { cut: "warning", failed: "danger" } as const;
  const status = state.state === "cut" || state.state === "failed" ? looks[state.state] : undefined;
  return (
    <div className="log-foot">
      <span role="status">
        <Label isCompact variant="outline" status={status}>
          {text.states[state.state]}
        </Label>
      </span>
      <span>{text.lines(buffer.size)}</span>
      {buffer.first > 0 && <span className="job-note">{text.dropped(buffer.first)}</span>}
    </div>
  );
}

function Download({ jobRef, query }: { jobRef: Ref; query: LogQuery }) {
  const [lines, setLines] = useState<number>();
  const running = useRef<AbortController>();
  const { fail } = useToast();
  useEffect(() => () => running.current?.abort(), []);
  const start = async () => {
    running.current = new AbortController();
    const { signal } = running.current;
    setLines(0);
    try {
      await downloadLog(jobRef, query, signal, setLines);
    } catch (error) {
      if (!signal.aborted) fail(text.downloadFailed, error);
    } finally {
      setLines(undefined);
    }
  };
  if (lines !== undefined)
    return (
      <Button variant="secondary" isLoading onClick={() => running.current?.abort()} aria-label={text.stopDownload}>
        {text.downloading(lines)}
      </Button>
    );
  return (
    <Button variant="secondary" icon={<DownloadIcon />} onClick={() => void start()}>
      {text.download}
    </Button>
  );
}

function useColumns(): [Columns, (columns: Columns) => void] {
  const isColumns = (value: unknown): value is Columns =>
    typeof value === "object" && value !== null && Object.keys(usual).every((key) => key in value);
  const [columns, setColumns] = useState(() => recallJson(columnsKey, isColumns, usual));
  return [
    columns,
    (to) => {
      remember(columnsKey, JSON.stringify(to));
      setColumns(to);
    },
  ];
}

function nextOf(numbers: readonly number[], after: number | undefined): number {
  return numbers.find((number) => after === undefined || number > after) ?? numbers[0] ?? 0;
}

type Wanted = { number: number; wish: number };

/** The line that the view shall show: that of a moment chosen elsewhere, or the first evidence. It is looked for while the log is read. */
function useWanted(
  log: Log,
  at: number | undefined,
  wantsEvidence: boolean,
  stick: (sticks: boolean) => void,
): [Wanted | undefined, (number: number) => void] {
  const [wanted, setWanted] = useState<Wanted>();
  const want = useCallback(
    (number: number) => {
      stick(false);
      setWanted((before) => ({ number, wish: (before?.wish ?? 0) + 1 }));
    },
    [stick],
  );
  const found = useRef<string>();
  const wish = at !== undefined ? `at ${at}` : wantsEvidence ? "evidence" : undefined;
  const { buffer, version, state } = log;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that the buffer has changed.
  useEffect(() => {
    if (!wish || found.current === wish || !buffer.size) return;
    const last = buffer.at(buffer.end - 1)?.at ?? Number.NaN;
    const isRead = state.state === "ended" || (at !== undefined && last > at);
    const target = at !== undefined ? buffer.nearest(at) : buffer.evidence[0];
    if (target === undefined) return;
    if (isRead || at === undefined) found.current = wish;
    want(target);
  }, [wish, at, buffer, version, state.state, want]);
  return [wanted, want];
}
