// All Workers at a glance: one cell each, by colour and shape. One stop for the keyboard; arrow keys move between cells.

import { type KeyboardEvent, useRef, useState } from "react";
import { messages } from "../messages";
import { countBy, type Worker } from "./health";
import { type Manifest, ranksOf } from "./manifest";
import { Shape } from "./shape";

const text = messages.job.workers;

type Props = {
  workers: readonly Worker[];
  manifest: Manifest;
  chosen: number | undefined;
  onChoose: (index: number | undefined) => void;
};

export function WorkerGrid({ workers, manifest, chosen, onChoose }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const [focused, setFocused] = useState(0);
  const current = workers.some(({ index }) => index === focused) ? focused : (workers[0]?.index ?? 0);
  const move = (event: KeyboardEvent) => {
    const place = workers.findIndex(({ index }) => index === current);
    const to = target(event.key, place, workers.length, columnsOf(list.current));
    const next = workers[to ?? -1];
    if (!next) return;
    event.preventDefault();
    setFocused(next.index);
    list.current?.querySelector<HTMLElement>(`[data-worker="${next.index}"]`)?.focus();
  };
  return (
    <>
      <Legend workers={workers} />
      <div ref={list} role="listbox" aria-label={text.grid} className="job-grid" onKeyDown={move} tabIndex={-1}>
        {workers.map((worker) => (
          <button
            key={worker.index}
            type="button"
            role="option"
            data-worker={worker.index}
            className={`job-cell job-cell-${worker.health}`}
            aria-selected={worker.index === chosen}
            aria-label={nameOf(worker, manifest)}
            title={nameOf(worker, manifest)}
            tabIndex={worker.index === current ? 0 : -1}
            onFocus={() => setFocused(worker.index)}
            onClick={() => onChoose(worker.index === chosen ? undefined : worker.index)}
          >
            <Shape health={worker.health} />
            <span>{worker.index}</span>
          </button>
        ))}
      </div>
    </>
  );
}

function Legend({ workers }: { workers: readonly Worker[] }) {
  return (
    <ul className="job-legend">
      {countBy(workers).map(([health, count]) => (
        <li key={health}>
          <Shape health={health} /> {text.count(count, text.health[health] ?? health)}
        </li>
      ))}
    </ul>
  );
}

function nameOf({ index, health, pod, state }: Worker, manifest: Manifest): string {
  const ranks = ranksOf(manifest, index);
  const parts = [text.name(index), text.health[health] ?? health];
  if (state && state !== text.health[health]) parts.push(state);
  if (pod?.node) parts.push(`${text.columns.node} ${pod.node}`);
  if (ranks) parts.push(`${text.columns.ranks} ${text.ranks(...ranks)}`);
  return parts.join(", ");
}

/** The cell that a key leads to. */
export function target(key: string, place: number, count: number, columns: number): number | undefined {
  const last = count - 1;
  const steps: Record<string, number> = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns };
  if (key === "Home") return 0;
  if (key === "End") return last;
  const step = steps[key];
  if (step === undefined) return undefined;
  const to = place + step;
  return to < 0 || to > last ? place : to;
}

function columnsOf(list: HTMLElement | null): number {
  return list ? getComputedStyle(list).gridTemplateColumns.split(" ").length : 1;
}
