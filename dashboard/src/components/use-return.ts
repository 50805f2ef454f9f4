// A page whose code could not be fetched is loaded again once the service answers: browsers do not fetch a module a second time.

import { useEffect } from "react";
import { serviceRoot } from "../api/root";
import { recallForSession, rememberForSession } from "../browser/storage";

const reloadedKey = "training.reloaded";
const interval = 2_000;
/** What cannot be loaded although the service answers is not loaded over and over. */
const shortestTime = 60_000;

/** Whether a page loads by itself. In another dashboard's frame that would take the whole frame away. */
export const returnsByItself = serviceRoot === "";

/** `isBack` says whether the service answers. */
export function useReturn(isBack: (stop: AbortSignal) => Promise<boolean> = answers): void {
  useEffect(() => {
    if (!returnsByItself) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async () => {
      const isThere = await isBack(stop.signal);
      if (stop.signal.aborted) return;
      if (isThere) reloadOnce();
      else timer = setTimeout(() => void look(), interval);
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [isBack]);
}

async function answers(signal: AbortSignal): Promise<boolean> {
  try {
    return (await fetch("/healthz", { signal, cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

function reloadOnce(): void {
  const last = Number(recallForSession(reloadedKey));
  if (Date.now() - last < shortestTime) return;
  const now = String(Date.now());
  rememberForSession(reloadedKey, now);
  // Where nothing is remembered, the button is left.
  if (recallForSession(reloadedKey) === now) window.location.reload();
}
