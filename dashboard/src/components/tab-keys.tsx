// Tabs as the keyboard expects them: one stop, from which arrows, Home and End lead to the others. PatternFly's are a stop each.

import { type KeyboardEvent, type ReactNode, useLayoutEffect, useRef } from "react";

const tabsOf = (within: Element) => [...within.querySelectorAll<HTMLElement>("[role=tab]")];

/** Around `Tabs`. A tab that has the focus is shown by Enter or Space, because what it shows may have to be loaded. */
export function TabKeys({ active, children }: { active: string; children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another tab is selected when this changes.
  useLayoutEffect(() => {
    for (const tab of frame.current ? tabsOf(frame.current) : [])
      tab.tabIndex = tab.getAttribute("aria-selected") === "true" ? 0 : -1;
  }, [active]);
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: the tabs in it have the focus and the roles.
    <div ref={frame} className="app-beside" onKeyDown={move}>
      {children}
    </div>
  );
}

function move(event: KeyboardEvent<HTMLDivElement>): void {
  const tabs = tabsOf(event.currentTarget);
  const at = tabs.indexOf(event.target as HTMLElement);
  if (at < 0) return;
  const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[event.key];
  if (next === undefined) return;
  tabs.at(next % tabs.length)?.focus();
  event.preventDefault();
}
