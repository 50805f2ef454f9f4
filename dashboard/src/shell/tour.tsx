// A short tour of the list of jobs: each step points to a part of the page, which stays usable beside it.

import { Button, Popover, Title } from "@patternfly/react-core";
import { useCallback, useEffect, useState } from "react";
import { messages } from "../messages";
import { userMenuId } from "./user-menu";

const text = messages.tour;
/** The title of each page. */
export const pageTitle = "main h1";
const nextId = "tour-next";

// What each step points to: the first of these that the page has.
const steps = [
  { key: "jobs", anchors: [] },
  { key: "create", anchors: ["[data-create-link]"] },
  { key: "job", anchors: ["[data-row-link]"] },
  { key: "failure", anchors: [`tbody td[data-label="${messages.jobs.columns.state}"]`] },
  { key: "help", anchors: [`#${userMenuId}`] },
] as const;

type Props = {
  /** The focus moves back, unless the person uses what a step points to. */
  onClose: (movesFocus: boolean) => void;
};

export function Tour({ onClose }: Props) {
  const [at, setAt] = useState(0);
  const { key, anchors } = steps[at] ?? steps[0];
  const anchor = useCallback(() => find(anchors), [anchors]);
  useEffect(() => {
    anchor().scrollIntoView({ block: "nearest" });
  }, [anchor]);
  const isLast = at === steps.length - 1;
  return (
    <Popover
      isVisible
      triggerRef={anchor}
      shouldClose={(event) => onClose(event.currentTarget !== anchor())}
      hideOnOutsideClick={false}
      elementToFocus={`#${nextId}`}
      position="bottom"
      animationDuration={prefersReducedMotion() ? 0 : undefined}
      closeBtnAriaLabel={text.skip}
      aria-label={text.label}
      // A change of step is announced; the focus stays on the button that made it. A header of the popover would be a
      // second banner of the page.
      bodyContent={
        <div aria-live="polite" aria-atomic="true" className="app-tour">
          <Title headingLevel="h2" size="md">
            {text.steps[key].title}
          </Title>
          {text.steps[key].body}
        </div>
      }
      footerContent={
        <div className="app-tour-steps">
          <span>{text.progress(at + 1, steps.length)}</span>
          <Button variant="link" size="sm" isAriaDisabled={at === 0} onClick={() => setAt(Math.max(0, at - 1))}>
            {text.back}
          </Button>
          <Button id={nextId} size="sm" onClick={() => (isLast ? onClose(true) : setAt(at + 1))}>
            {isLast ? text.done : text.next}
          </Button>
        </div>
      }
    />
  );
}

function find(anchors: readonly string[]): HTMLElement {
  const found = [...anchors, pageTitle].map((one) => document.querySelector<HTMLElement>(one)).find(Boolean);
  return found ?? document.body;
}

function prefersReducedMotion(): boolean {
  return window.matchMedia("(prefers-reduced-motion: reduce)").matches;
}
