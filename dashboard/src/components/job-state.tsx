// The state of a job, by colour, shape and word, as the service computed it.

import { Label } from "@patternfly/react-core";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import InProgressIcon from "@patternfly/react-icons/dist/esm/icons/in-progress-icon";
import PauseCircleIcon from "@patternfly/react-icons/dist/esm/icons/pause-circle-icon";
import PendingIcon from "@patternfly/react-icons/dist/esm/icons/pending-icon";
import TrashIcon from "@patternfly/react-icons/dist/esm/icons/trash-icon";
import type { JobRow } from "../api/client";
import { sentence } from "../format/words";
import { messages } from "../messages";

const text = messages.jobs;

const looks = {
  Pending: { color: "grey", icon: <PendingIcon /> },
  Running: { color: "blue", icon: <InProgressIcon /> },
  Succeeded: { color: "green", icon: <CheckCircleIcon /> },
  Failed: { color: "red", icon: <ExclamationCircleIcon /> },
} as const;

export function JobState({ row, isCompact = true }: { row: JobRow; isCompact?: boolean }) {
  const look = row.deleting
    ? ({ color: "grey", icon: <TrashIcon /> } as const)
    : row.phaseReason === "Suspended"
      ? ({ color: "yellow", icon: <PauseCircleIcon /> } as const)
      : looks[row.phase ?? "Pending"];
  return (
    <Label isCompact={isCompact} color={look.color} icon={look.icon}>
      {stateWord(row)}
    </Label>
  );
}

/** The word for a job's state: its reason while it is pending, else its phase. */
export function stateWord(row: JobRow): string {
  if (row.deleting) return text.deleting;
  const phase = row.phase ?? "Pending";
  return phase === "Pending" && row.phaseReason ? sentence(row.phaseReason) : phase;
}

/** `7/8 Running, 1 Pending`. */
export function workersText(row: JobRow): string {
  const { running = 0, pending = 0, failed = 0, of = 0 } = row.workers ?? {};
  if (row.phase === "Failed" && failed) return text.failedSummary(failed, of);
  if (row.phase === "Succeeded" || row.phase === "Failed") return text.workers(of);
  const parts = [text.running(running, of)];
  if (pending) parts.push(text.pending(pending));
  if (failed) parts.push(text.failedWorkers(failed));
  return parts.join(", ");
}
