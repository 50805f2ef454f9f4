// Back and forward lead to the place of the page that was left. The main element scrolls and not the window, whose place a
// browser keeps by itself.

import { useLayoutEffect } from "react";
import { useLocation, useNavigationType } from "react-router-dom";
import { mainId } from "./main-element";

/** Places of this tab, by the key of the entry in its history; the oldest are forgotten. */
const places = new Map<string, number>();
const mostPlaces = 100;
/** How long a page may take to be as long as it was; then it stays where it is. */
const patience = 5_000;
/** What a person does to go elsewhere meanwhile. */
const gestures = ["wheel", "keydown", "pointerdown", "touchstart"] as const;

export function useScrollPlace(): void {
  const { key } = useLocation();
  const isReturn = useNavigationType() === "POP";
  useLayoutEffect(() => {
    const main = document.getElementById(mainId);
    if (!main) return;
    const stop = new AbortController();
    const wanted = isReturn ? places.get(key) : undefined;
    if (wanted) restore(main, wanted, stop.signal);
    main.addEventListener("scroll", () => keep(key, main.scrollTop), { signal: stop.signal });
    return () => stop.abort();
  }, [key, isReturn]);
}

function keep(key: string, place: number): void {
  places.delete(key);
  places.set(key, place);
  const oldest = places.keys().next();
  if (places.size > mostPlaces && !oldest.done) places.delete(oldest.value);
}

/** Scrolls as soon as the page is long enough: what is in it may have to be loaded first. */
function restore(main: HTMLElement, wanted: number, signal: AbortSignal): void {
  const until = performance.now() + patience;
  let isOver = false;
  for (const gesture of gestures)
    window.addEventListener(
      gesture,
      () => {
        isOver = true;
      },
      { signal, once: true, passive: true, capture: true },
    );
  const look = () => {
    if (isOver || signal.aborted || performance.now() > until) return;
    if (main.scrollHeight - main.clientHeight >= wanted) main.scrollTop = wanted;
    else requestAnimationFrame(look);
  };
  look();
}
