// Starts an action on jobs: asks before deleting, and reports what became of it.

import { Button, List, ListItem, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import { type ReactNode, useCallback, useState } from "react";
import type { JobRow } from "../api/client";
import { useToast } from "../components/toasts";
import { messages } from "../messages";
import { type Action, type Outcome, rowKey, useJobAction } from "./actions";
import type { Select } from "./page";

const text = messages.jobs;
const mostNamed = 10;

export type StartAction = (action: Action, rows: JobRow[]) => void;

/** Returns how to start an action, and the dialog that asks before jobs are deleted. */
export function useActionStarter(select: Select): [StartAction, ReactNode] {
  const { show, fail } = useToast();
  const { mutate, isPending } = useJobAction();
  const [asked, setAsked] = useState<JobRow[]>();
  const run = useCallback(
    (action: Action, rows: JobRow[]) => {
      mutate(
        { action, rows },
        {
          onSuccess: (outcomes) => {
            report(action, outcomes, show);
            select(rows, false);
          },
          onError: (error) => fail(text.notDone[action](rows.length), error),
          onSettled: () => setAsked(undefined),
        },
      );
    },
    [mutate, show, fail, select],
  );
  const start = useCallback<StartAction>(
    (action, rows) => (action === "delete" ? setAsked(rows) : run(action, rows)),
    [run],
  );
  const dialog = asked && (
    <DeleteDialog
      rows={asked}
      isBusy={isPending}
      onCancel={() => setAsked(undefined)}
      onDelete={() => run("delete", asked)}
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
      {failed.length > mostNamed && <ListItem>{text.delete.more(failed.length - mostNamed)}</ListItem>}
    </List>,
  );
}

function DeleteDialog({
  rows,
  isBusy,
  onCancel,
  onDelete,
}: {
  rows: JobRow[];
  isBusy: boolean;
  onCancel: () => void;
  onDelete: () => void;
}) {
  return (
    <Modal isOpen variant="small" onClose={onCancel} aria-labelledby="delete-title" aria-describedby="delete-body">
      <ModalHeader title={text.delete.title(rows.length)} titleIconVariant="warning" labelId="delete-title" />
      <ModalBody id="delete-body">
        <p>{rows.length === 1 ? text.delete.body : text.delete.bodyMany}</p>
        <List className="app-names">
          {rows.slice(0, mostNamed).map((row) => (
            <ListItem key={rowKey(row)}>
              <bdi>
                {row.namespace}/{row.name}
              </bdi>
            </ListItem>
          ))}
          {rows.length > mostNamed && <ListItem>{text.delete.more(rows.length - mostNamed)}</ListItem>}
        </List>
      </ModalBody>
      <ModalFooter>
        <Button variant="danger" onClick={onDelete} isLoading={isBusy} isDisabled={isBusy}>
          {text.delete.confirm}
        </Button>
        <Button variant="link" onClick={onCancel}>
          {messages.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
