// The health of a Worker as a shape and a colour: either alone is enough.

import type { Health } from "./health";

// In a box of 16 × 16.
const paths: Record<Health, string> = {
  running: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Z",
  waiting: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm0 1.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Z",
  starting: "M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm0 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8Z",
  blocked: "M8 1 15.5 15H.5Z",
  failed: "M3 .9 8 5.9l5-5L15.1 3l-5 5 5 5-2.1 2.1-5-5-5 5L.9 13l5-5-5-5Z",
  done: "M6.2 14.2.8 8.8l2.2-2.2 3.2 3.2L13 3l2.2 2.2Z",
  gone: "M2 6.5h12v3H2Z",
};

export function Shape({ health }: { health: Health }) {
  return (
    <svg viewBox="0 0 16 16" className={`job-shape job-${health}`} aria-hidden="true" focusable="false">
      <path d={paths[health] ?? paths.waiting} fillRule="evenodd" />
    </svg>
  );
}
