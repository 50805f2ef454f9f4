// The stream for components: `useLiveJobs` keeps what a page has loaded up to date, and reports its state to the masthead.

import { useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { applyEvent, keys, throttle } from "./cache";
import { type Freshness, freshnessOf, isOfJobs } from "./freshness";
import { pollInterval, type StreamFilter, type StreamState, watchJobs } from "./stream";

// A list is loaded again at most this often, however many jobs change.
const refreshInterval = 700;

type Live = { state: StreamState | undefined; report: (state: StreamState | undefined) => void };
export const LiveContext = createContext<Live>({ state: undefined, report: () => {} });

export function LiveProvider({ children }: { children: ReactNode }) {
  const [state, report] = useState<StreamState>();
  const live = useMemo(() => ({ state, report }), [state]);
  return <LiveContext.Provider value={live}>{children}</LiveContext.Provider>;
}

/** The state of the page's stream; undefined on pages that have none. */
export function useStreamState(): StreamState | undefined {
  return useContext(LiveContext).state;
}

/** Whether the reads of the page that take the place of its stream succeed. */
export function useFreshness(stream: StreamState | undefined): Freshness | undefined {
  const cache = useQueryClient().getQueryCache();
  const subscribe = useMemo(() => (onChange: () => void) => cache.subscribe(onChange), [cache]);
  const text = useSyncExternalStore(subscribe, () => {
    const reads = cache.findAll({ predicate: (query) => query.isActive() && isOfJobs(query.queryKey) });
    const freshness = freshnessOf(
      stream,
      reads.map(({ state }) => state),
    );
    // A text, because the value must be the same for the same state.
    return freshness && JSON.stringify(freshness);
  });
  return useMemo(() => (text ? (JSON.parse(text) as Freshness) : undefined), [text]);
}

/** For `refetchInterval`: polls while the stream is cut. */
export function usePolling(): number | false {
  const state = useStreamState()?.state;
  return state === "cut" ? pollInterval : false;
}

/** Keeps lists of jobs, and everything cached about single jobs, up to date while the component is shown. */
export function useLiveJobs(filter: StreamFilter): void {
  const queries = useQueryClient();
  const { report } = useContext(LiveContext);
  const text = JSON.stringify(filter);
  useEffect(() => {
    const refresh = throttle(() => void queries.invalidateQueries({ queryKey: keys.allJobs }), refreshInterval);
    const stop = watchJobs(JSON.parse(text), (event) => applyEvent(queries, event, refresh.call), report);
    return () => {
      stop();
      refresh.stop();
      report(undefined);
    };
  }, [queries, report, text]);
}
