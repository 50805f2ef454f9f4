// The list of jobs: filtered, sorted and paged by the service, kept up to date by its stream, and said by the address.

import { Button, PageSection } from "@patternfly/react-core";
import CubesIcon from "@patternfly/react-icons/dist/esm/icons/cubes-icon";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { useSearchParams } from "react-router-dom";
import { keys } from "../api/cache";
import { ask, client } from "../api/client";
import { useLiveJobs, usePolling } from "../api/live";
import { LinkButton } from "../components/link-button";
import { PageHeader } from "../components/page-header";
import { ErrorAlert, ErrorState, NothingHere } from "../components/states";
import { messages } from "../messages";
import { Alerts } from "../notifications/alerts";
import { useNamespace } from "../shell/namespace";
import { isFiltered, listQuery, noFilters, streamFilter, type View, viewOf, withView } from "./filter";
import { knownMetrics, MetricsContext } from "./metric-columns";
import { JobsPaging } from "./paging";
import { useSelection } from "./selection";
import { JobsTable } from "./table";
import { JobsToolbar } from "./toolbar";

const text = messages.jobs;
const metricsInterval = 15_000;

export function JobsPage() {
  const [namespace] = useNamespace();
  const [view, change] = useJobsView();
  const [offersMetrics, setOffersMetrics] = useState(false);
  const query = listQuery(namespace, view, offersMetrics || view.metrics.length > 0);
  useLiveJobs(streamFilter(namespace, view));
  const polling = usePolling();
  const list = useQuery({
    queryKey: keys.jobs(query),
    queryFn: ({ signal }) => ask(client.GET("/api/v1/jobs", { params: { query }, signal })),
    placeholderData: keepPreviousData,
    // A value changes without a change of its job's row.
    refetchInterval: polling || (view.metrics.length > 0 && metricsInterval),
  });
  const metrics = useMemo(
    () => (list.data && !list.isPlaceholderData ? knownMetrics(list.data) : undefined),
    [list.data, list.isPlaceholderData],
  );
  const [selection, select] = useSelection(list.data?.jobs);
  return (
    <>
      <PageHeader title={text.title} actions={<CreateButton />} />
      <PageSection isFilled>
        <Alerts namespace={namespace} />
        <JobsToolbar
          view={view}
          change={change}
          isLoading={list.isPending}
          total={list.data?.total}
          selection={selection}
          select={select}
          metrics={metrics}
          offerMetrics={() => setOffersMetrics(true)}
        />
        {list.error && list.data && (
          <ErrorAlert error={list.error} title={text.stale} onRetry={() => void list.refetch()} />
        )}
        {list.error && !list.data ? (
          <ErrorState error={list.error} onRetry={() => void list.refetch()} />
        ) : list.data && !list.data.jobs.length && !view.pages.length ? (
          <Nothing view={view} change={change} />
        ) : (
          <MetricsContext.Provider value={metrics}>
            <JobsTable
              rows={list.data?.jobs}
              view={view}
              change={change}
              selection={selection}
              select={select}
              isOld={list.isPlaceholderData}
            />
          </MetricsContext.Provider>
        )}
        <JobsPaging view={view} change={change} next={list.data?.continue} total={list.data?.total} />
      </PageSection>
    </>
  );
}

function CreateButton() {
  return (
    <LinkButton variant="primary" to="/create" data-create-link>
      {text.create}
    </LinkButton>
  );
}

function Nothing({ view, change }: { view: View; change: (change: Partial<View>) => void }) {
  if (isFiltered(view)) {
    return (
      <NothingHere
        title={text.empty.none}
        actions={
          <Button variant="link" onClick={() => change(noFilters)}>
            {text.filters.clear}
          </Button>
        }
      >
        {text.empty.noneBody}
      </NothingHere>
    );
  }
  return (
    <NothingHere title={text.empty.title} icon={CubesIcon} actions={<CreateButton />}>
      {text.empty.body}
    </NothingHere>
  );
}

/** The view of the address, and how to change it. Typing replaces the entry of the browser's history. */
function useJobsView(): [View, (change: Partial<View>, replace?: boolean) => void] {
  const [query, setQuery] = useSearchParams();
  const view = useMemo(() => viewOf(query), [query]);
  const change = useCallback(
    (next: Partial<View>, replace = false) => setQuery((before) => withView(before, next), { replace }),
    [setQuery],
  );
  return [view, change];
}
