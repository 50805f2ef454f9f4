// The lines of a log that are in view. Only these are in the document, however many the log has.

import { Button } from "@patternfly/react-core";
import ArrowDownIcon from "@patternfly/react-icons/dist/esm/icons/arrow-down-icon";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { ScrollRegion } from "../../components/scroll-region";
import { messages } from "../../messages";
import type { LineBuffer } from "./buffer";
import { type Columns, LineRow } from "./line-row";
import type { Finder } from "./pattern";

const text = messages.job.logs;
const lineHeight = 24;
// How far from the end still counts as the end.
const endSlack = 30;

type Props = {
  buffer: LineBuffer;
  version: number;
  columns: Columns;
  pattern: Finder | undefined;
  at: number | undefined;
  /** Whether the view keeps to the newest line. */
  sticks: boolean;
  onStick: (sticks: boolean) => void;
  /** The line to show, and a number that grows with each wish to see it. */
  wanted: { number: number; wish: number } | undefined;
  onChoose: (at: number) => void;
  onWhole: (number: number) => void;
};

export function Lines({ buffer, version, columns, pattern, at, sticks, onStick, wanted, onChoose, onWhole }: Props) {
  const view = useRef<HTMLElement>(null);
  const first = buffer.first;
  const virtualizer = useVirtualizer({
    count: buffer.size,
    getScrollElement: () => view.current,
    estimateSize: () => lineHeight,
    getItemKey: useCallback((index: number) => first + index, [first]),
    overscan: 12,
  });
  const anchor = useAnchor(view, buffer, sticks, onStick, version, virtualizer);
  const { onScroll, acts, ...acted } = anchor;
  useEffect(() => {
    if (!wanted || !buffer.at(wanted.number)) return;
    const index = wanted.number - buffer.first;
    const { startIndex = 0, endIndex = -1 } = virtualizer.range ?? {};
    if (index < startIndex || index > endIndex) virtualizer.scrollToIndex(index, { align: "center" });
  }, [wanted, buffer, virtualizer]);
  const seen = useSeen(buffer, sticks, version);
  const chosen = at === undefined ? -1 : buffer.nearest(at);
  const keys = (event: KeyboardEvent) => {
    acts();
    const top = buffer.at(buffer.first + (virtualizer.range?.startIndex ?? 0));
    if (event.key === "Enter" && event.target === view.current && top) onChoose(top.at);
  };
  const missed = buffer.end - seen;
  return (
    <div className="log-frame">
      <ScrollRegion
        ref={view}
        label={text.label}
        aria-describedby="log-keyboard"
        className={columns.wrap ? "log-view log-wrap" : "log-view"}
        onScroll={onScroll}
        {...acted}
        onKeyDown={keys}
      >
        <div className="log-all" style={{ height: virtualizer.getTotalSize() }}>
          {virtualizer.getVirtualItems().map((item) => {
            const number = buffer.first + item.index;
            const line = buffer.at(number);
            return (
              line && (
                <div
                  key={item.key}
                  ref={columns.wrap ? virtualizer.measureElement : undefined}
                  data-index={item.index}
                  className="log-place"
                  style={{ transform: `translateY(${item.start}px)` }}
                >
                  <LineRow
                    line={line}
                    number={number}
                    columns={columns}
                    pattern={pattern}
                    isChosen={number === chosen}
                    onChoose={onChoose}
                    onWhole={onWhole}
                  />
                </div>
              )
            );
          })}
        </div>
      </ScrollRegion>
      <span id="log-keyboard" hidden>
        {text.keyboard}
      </span>
      {!sticks && missed > 0 && (
        <Button className="log-to-end" size="sm" icon={<ArrowDownIcon />} onClick={() => onStick(true)}>
          {text.newLines(missed)}
        </Button>
      )}
    </div>
  );
}

/** The number that the next line had when the person last saw the end. */
function useSeen(buffer: LineBuffer, sticks: boolean, version: number): number {
  const [seen, setSeen] = useState(buffer.end);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that the buffer has changed.
  useEffect(() => {
    if (sticks) setSeen(buffer.end);
  }, [buffer, sticks, version]);
  return seen;
}

type Virtualizer = ReturnType<typeof useVirtualizer<HTMLElement, Element>>;

type Anchor = {
  onScroll: () => void;
  onWheel: () => void;
  onTouchMove: () => void;
  onPointerDown: () => void;
  /** Notes that the person does something that may scroll. */
  acts: () => void;
};

/** How long after what a person does a movement can come from it. */
const actingTime = 1_000;

/** Keeps what the person reads in its place while lines come and go; or keeps to the end. Returns what to do on scrolling. */
function useAnchor(
  view: React.RefObject<HTMLElement | null>,
  buffer: LineBuffer,
  sticks: boolean,
  onStick: (sticks: boolean) => void,
  version: number,
  virtualizer: Virtualizer,
): Anchor {
  const anchor = useRef({ number: 0, offset: 0 });
  const acted = useRef(Number.NEGATIVE_INFINITY);
  const held = useRef(false);
  const acts = () => {
    acted.current = performance.now();
  };
  const lastTop = useRef(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the version says that the buffer has changed.
  useLayoutEffect(() => {
    const element = view.current;
    if (!element) return;
    if (sticks) element.scrollTop = element.scrollHeight;
    else {
      const index = anchor.current.number - buffer.first;
      const start = index > 0 ? virtualizer.getOffsetForIndex(index, "start")?.[0] : 0;
      if (start !== undefined) element.scrollTop = start + (index >= 0 ? anchor.current.offset : 0);
    }
    lastTop.current = element.scrollTop;
  }, [buffer, buffer.first, version, sticks]);
  const hold = () => {
    held.current = true;
    const release = () => {
      held.current = false;
      acts();
    };
    window.addEventListener("pointerup", release, { once: true });
  };
  const onScroll = () => {
    const element = view.current;
    if (!element) return;
    const isEnd = element.scrollHeight - element.scrollTop - element.clientHeight < endSlack;
    // Only a person's movement up is a wish to leave the end: lines that come and go move it as well.
    const isWish = held.current || performance.now() - acted.current < actingTime;
    if (sticks && !isEnd && isWish && element.scrollTop < lastTop.current) onStick(false);
    if (!sticks && isEnd && element.scrollTop > lastTop.current) onStick(true);
    lastTop.current = element.scrollTop;
    const top = virtualizer.getVirtualItemForOffset(element.scrollTop);
    if (top) anchor.current = { number: buffer.first + top.index, offset: element.scrollTop - top.start };
  };
  return { onScroll, onWheel: acts, onTouchMove: acts, onPointerDown: hold, acts };
}
