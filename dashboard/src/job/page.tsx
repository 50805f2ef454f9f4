// The page of one job: its head, its tabs, and what to say when it is gone, forbidden or out of reach.

import "./job.css";
import { PageSection, Tab, Tabs, TabTitleText } from "@patternfly/react-core";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { Link, useLocation, useNavigate, useParams } from "react-router-dom";
import { kindOf } from "../api/client";
import { allowed, useIdentity } from "../api/identity";
import { useLiveJobs } from "../api/live";
import { hasCode } from "../api/problem";
import { PageHeader } from "../components/page-header";
import { ErrorState, LoadingLines } from "../components/states";
import { TabKeys } from "../components/tab-keys";
import { type Action, jobAddress } from "../jobs/actions";
import { useActionStarter } from "../jobs/start-action";
import { messages } from "../messages";
import { MomentBar } from "./cursor";
import { JobHeader } from "./header";
import { readManifest } from "./manifest";
import { Notices } from "./notices";
import { Overview } from "./overview";
import type { JobTab } from "./tab";
import { hasEnded, type Ref, useJob } from "./use-job";

const text = messages.job;

const Configuration = lazy(async () => ({ default: (await import("./configuration")).Configuration }));
const Workers = lazy(async () => ({ default: (await import("./workers")).Workers }));
const Logs = lazy(async () => ({ default: (await import("./logs/panel")).Logs }));
const Metrics = lazy(async () => ({ default: (await import("./metrics")).Metrics }));
const Artifacts = lazy(async () => ({ default: (await import("./artifacts/panel")).Artifacts }));
const Events = lazy(async () => ({ default: (await import("./events")).Events }));

const tabs = [
  { key: "overview", Content: Overview },
  { key: "configuration", Content: Configuration },
  { key: "workers", Content: Workers },
  { key: "logs", Content: Logs },
  { key: "metrics", Content: Metrics },
  { key: "events", Content: Events },
  { key: "artifacts", Content: Artifacts },
] as const;

export function JobPage() {
  const { namespace = "", kind, name = "" } = useParams();
  const ref = useMemo<Ref>(() => ({ namespace, kind: kindOf(kind), name }), [namespace, kind, name]);
  return <JobPageOf key={JSON.stringify(ref)} jobRef={ref} />;
}

function JobPageOf({ jobRef }: { jobRef: Ref }) {
  useLiveJobs({ namespace: jobRef.namespace, kind: [jobRef.kind], q: jobRef.name });
  const query = useJob(jobRef);
  const job = query.data;
  const identity = useIdentity(jobRef.namespace, jobRef.kind);
  const may = useCallback<JobTab["may"]>((verb, resource) => allowed(identity.data, verb, resource), [identity.data]);
  const manifest = useMemo(() => readManifest(job?.manifest), [job?.manifest]);
  const departure = useDeparture();
  const [start, dialog] = useActionStarter(noSelection, departure.onDone);
  const isReplaced = useReplaced(job?.row?.uid);
  const isGone = hasCode(query.error, "NotFound");
  if (!job)
    return (
      <>
        <PageHeader title={jobRef.name} />
        <PageSection isFilled>
          {query.error ? (
            <ErrorState
              error={query.error}
              onRetry={() => void query.refetch()}
              actions={isGone && <Link to="/jobs">{text.deletedToList}</Link>}
            />
          ) : (
            <LoadingLines lines={8} />
          )}
        </PageSection>
      </>
    );
  return (
    <>
      <JobHeader job={job} jobRef={jobRef} manifest={manifest} isGone={isGone} may={may} start={start} />
      <PageSection isFilled>
        {!departure.hasBegun && !dialog && (
          <Notices error={query.error} job={job} isReplaced={isReplaced} onRetry={() => void query.refetch()} />
        )}
        <JobTabs tab={{ job, jobRef, manifest, live: !hasEnded(job) && !isGone, isGone, may, start }} />
      </PageSection>
      {dialog}
    </>
  );
}

/** The page of one job has no rows to select. */
const noSelection = () => {};

/**
 * After a job was deleted here, its page has nothing more to do, and its button is gone: the list is next. While the
 * list loads, nobody has to be told that the job is gone.
 */
function useDeparture(): { hasBegun: boolean; onDone: (action: Action) => void } {
  const navigate = useNavigate();
  const [hasBegun, setBegun] = useState(false);
  const onDone = useCallback(
    (action: Action) => {
      if (action !== "delete") return;
      setBegun(true);
      void navigate("/jobs");
    },
    [navigate],
  );
  return { hasBegun, onDone };
}

/** Whether the job that was shown first was replaced by another one with the same name. */
function useReplaced(uid: string | undefined): boolean {
  const first = useRef(uid);
  first.current ??= uid;
  return Boolean(uid && first.current !== uid);
}

function JobTabs({ tab }: { tab: JobTab }) {
  const [active, show] = useTab(tab.jobRef);
  const Content = (tabs.find(({ key }) => key === active) ?? tabs[0]).Content;
  const others = (["logs", "metrics", "events"] as const)
    .filter((key) => key !== active)
    .map((key) => ({ key: `${jobAddress(tab.jobRef)}/${key}`, title: text.tabs[key] }));
  return (
    <>
      <TabKeys active={active}>
        <Tabs
          activeKey={active}
          onSelect={(_event, key) => show(String(key))}
          aria-label={text.tabs.label}
          className="job-tabs"
        >
          {tabs.map(({ key }) => (
            <Tab
              key={key}
              eventKey={key}
              title={<TabTitleText>{text.tabs[key]}</TabTitleText>}
              tabContentId={`job-${key}`}
            />
          ))}
        </Tabs>
      </TabKeys>
      <MomentBar tabs={others} hasTimes={tabsWithTimes.includes(active)} />
      <section key={active} id={`job-${active}`} role="tabpanel" aria-label={text.tabs[active]} className="job-panel">
        <Suspense fallback={<LoadingLines lines={8} />}>
          <Content {...tab} />
        </Suspense>
      </section>
    </>
  );
}

type TabKey = (typeof tabs)[number]["key"];
/** Where people go through many times. */
const tabsWithTimes: readonly TabKey[] = ["logs", "metrics", "events"];

/** The tab is a part of the address. A moment that was chosen stays chosen; what belongs to one tab only does not. */
function useTab(jobRef: Ref): [TabKey, (key: string) => void] {
  const { "*": rest = "" } = useParams();
  const { search } = useLocation();
  const navigate = useNavigate();
  const found = tabs.find(({ key }) => key === rest)?.key;
  const show = (key: string) => {
    const at = new URLSearchParams(search).get("at");
    const query = at ? `?${new URLSearchParams({ at })}` : "";
    void navigate(`${jobAddress(jobRef)}${key === "overview" ? "" : `/${key}`}${query}`);
  };
  useEffect(() => {
    if (rest && !found) void navigate({ pathname: jobAddress(jobRef), search }, { replace: true });
  }, [rest, found, navigate, jobRef, search]);
  return [found ?? "overview", show];
}
