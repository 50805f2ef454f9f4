// Starts an action on jobs: asks before jobs are cancelled or deleted, and reports what became of it.

import { Button, List, ListItem, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import { type ReactNode, useCallback, useState } from "react";
import type { JobRow } from "../api/client";
import { useToast } from "../components/toasts";
import { messages } from "../messages";
import { type Action, type Outcome, rowKey, useJobAction } from "./actions";
import type { Select } from "./selection";

const text = messages.jobs;
const mostNamed = 10;

export type StartAction = (action: Action, rows: JobRow[]) => void;

/** What cannot be undone is asked about first. */
type Final = "cancel" | "delete";

function isFinal(action: Action): action is Final {
  return action === "cancel" || action === "delete";
}

/** What to do when an action is done on every one of its jobs. */
type OnDone = (action: Action) => void;

/** Returns how to start an action, and the dialog that asks before one that is final. */
export function useActionStarter(select: Select, onDone?: OnDone): [StartAction, ReactNode] {
  const { show, fail } = useToast();
  const { mutate, isPending } = useJobAction();
  const [asked, setAsked] = useState<{ action: Final; rows: JobRow[] }>();
  const run = useCallback(
    (action: Action, rows: JobRow[]) => {
      mutate(
        { action, rows },
        {
          onSuccess: (outcomes) => {
            report(action, outcomes, show);
            select(rows, false);
            if (outcomes.every(({ problem }) => !problem)) onDone?.(action);
          },
          onError: (error) => fail(text.notDone[action](rows.length), error),
          onSettled: () => setAsked(undefined),
        },
      );
    },
    [mutate, show, fail, select, onDone],
  );
  const start = useCallback<StartAction>(
    (action, rows) => (isFinal(action) ? setAsked({ action, rows }) : run(action, rows)),
    [run],
  );
  const dialog = asked && (
    <FinalDialog
      {...asked}
      isBusy={isPending}
      onClose={() => setAsked(undefined)}
      onConfirm={() => run(asked.action, asked.rows)}
    />
  );
  return [start, dialog];
}

function report(action: Action, outcomes: Outcome[], show: ReturnType<typeof useToast>["show"]): void {
  const failed = outcomes.filter(({ problem }) => problem);
  const done = outcomes.length - failed.length;
  if (done) show(text.done[action](done));
  if (!failed.length) return;
  show(
    text.notDone[action](failed.length),
    "danger",
    <List>
      {failed.slice(0, mostNamed).map(({ job, problem }) => (
        <ListItem key={job}>
          <bdi>{problem?.message || job}</bdi>
        </ListItem>
      ))}
      {failed.length > mostNamed && <ListItem>{text.more(failed.length - mostNamed)}</ListItem>}
    </List>,
  );
}

type DialogProps = {
  action: Final;
  rows: JobRow[];
  isBusy: boolean;
  onClose: () => void;
  onConfirm: () => void;
};

function FinalDialog({ action, rows, isBusy, onClose, onConfirm }: DialogProps) {
  const words = text[action];
  return (
    <Modal
      isOpen
      variant="small"
      onClose={onClose}
      aria-labelledby="final-title"
      aria-describedby="final-body"
      // What does no harm.
      elementToFocus="#final-dismiss"
    >
      <ModalHeader title={words.title(rows.length)} titleIconVariant="warning" labelId="final-title" />
      <ModalBody id="final-body">
        <p>{rows.length === 1 ? words.body : words.bodyMany}</p>
        <List className="app-names">
          {rows.slice(0, mostNamed).map((row) => (
            <ListItem key={rowKey(row)}>
              <bdi>
                {row.namespace}/{row.name}
              </bdi>
            </ListItem>
          ))}
          {rows.length > mostNamed && <ListItem>{text.more(rows.length - mostNamed)}</ListItem>}
        </List>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" onClick={onConfirm} isLoading={isBusy} isDisabled={isBusy}>
          {words.confirm(rows.length)}
        </Button>
        <Button id="final-dismiss" variant="link" onClick={onClose}>
          {words.dismiss}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
