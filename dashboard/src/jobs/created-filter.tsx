// Jobs by when they were created: an age, or days.

import { Button, Flex, FlexItem, FormGroup, MenuToggle, Popover, Radio, TextInput } from "@patternfly/react-core";
import { useState } from "react";
import { messages } from "../messages";
import type { View } from "./filter";

const text = messages.jobs.filters;
const ages = Object.keys(text.last) as (keyof typeof text.last)[];

type Props = { view: View; change: (change: Partial<View>) => void };

export function CreatedFilter({ view, change }: Props) {
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <Popover
      aria-label={text.created}
      isVisible={open}
      shouldClose={close}
      shouldOpen={() => setOpen(true)}
      showClose={false}
      withFocusTrap
      position="bottom-start"
      bodyContent={<Choices view={view} change={change} close={close} />}
    >
      <MenuToggle isExpanded={open}>{text.created}</MenuToggle>
    </Popover>
  );
}

function Choices({ view, change, close }: Props & { close: () => void }) {
  const isDay = (time: string) => /^\d{4}-\d\d-\d\d$/.test(time);
  const [from, setFrom] = useState(isDay(view.since) ? view.since : "");
  const [to, setTo] = useState(isDay(view.until) ? view.until : "");
  const choose = (since: string, until: string) => {
    change({ since, until });
    close();
  };
  return (
    <Flex direction={{ default: "column" }}>
      <FlexItem className="app-choices" role="radiogroup" aria-label={text.created}>
        <Radio
          id="created-any"
          name="created"
          label={text.any}
          isChecked={!view.since && !view.until}
          onChange={() => choose("", "")}
        />
        {ages.map((age) => (
          <Radio
            key={age}
            id={`created-${age}`}
            name="created"
            label={text.last[age]}
            isChecked={view.since === age && !view.until}
            onChange={() => choose(age, "")}
          />
        ))}
      </FlexItem>
      <FormGroup label={text.from} fieldId="created-from">
        <TextInput id="created-from" type="date" value={from} onChange={(_event, value) => setFrom(value)} />
      </FormGroup>
      <FormGroup label={text.to} fieldId="created-to">
        <TextInput id="created-to" type="date" value={to} onChange={(_event, value) => setTo(value)} />
      </FormGroup>
      <Button variant="secondary" isDisabled={!from && !to} onClick={() => choose(from, to)}>
        {text.apply}
      </Button>
    </Flex>
  );
}

/** What the filter says: `Last 24 hours`, `Since 2026-01-31, Before 2026-02-01`. */
export function createdText({ since, until }: View): string {
  const age = ages.find((one) => one === since);
  if (age && !until) return text.last[age];
  return [since && text.since(since), until && text.until(until)].filter(Boolean).join(", ");
}
