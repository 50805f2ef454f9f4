// A time as people say it, which stays true, with the exact time for pointer, keyboard and screen reader.

import { useSyncExternalStore } from "react";
import { age, ago, duration, exact, secondsBetween } from "../format/time";

const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

/** The time, renewed every second for as long as something shows it. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  timer ??= setInterval(() => {
    now = Date.now();
    for (const each of listeners) each();
  }, 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size) return;
    clearInterval(timer);
    timer = undefined;
  };
}

/** The age of something, as short as tables need it. */
export function Age({ time }: { time: string | undefined }) {
  const current = useNow();
  if (!time) return null;
  return (
    <time dateTime={time} title={exact(time)}>
      {age(secondsBetween(time, undefined, current))}
    </time>
  );
}

export function Ago({ time }: { time: string | undefined }) {
  const current = useNow();
  if (!time) return null;
  return (
    <time dateTime={time} title={exact(time)}>
      {ago(time, current)}
    </time>
  );
}

/** The time itself, for records. */
export function Exact({ time }: { time: string | undefined }) {
  return time ? <time dateTime={time}>{exact(time)}</time> : null;
}

/** The time from one moment to another, or a running one up to now. */
export function Duration({ from, to }: { from: string | undefined; to?: string }) {
  const current = useNow();
  if (!from) return null;
  return <span title={exact(from)}>{duration(secondsBetween(from, to, current))}</span>;
}
