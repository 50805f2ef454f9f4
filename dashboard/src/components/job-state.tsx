// The state of a job, by colour, shape and word, as the service computed it.

import { Label, type LabelProps } from "@patternfly/react-core";
import BanIcon from "@patternfly/react-icons/dist/esm/icons/ban-icon";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import InProgressIcon from "@patternfly/react-icons/dist/esm/icons/in-progress-icon";
import PauseCircleIcon from "@patternfly/react-icons/dist/esm/icons/pause-circle-icon";
import PendingIcon from "@patternfly/react-icons/dist/esm/icons/pending-icon";
import TrashIcon from "@patternfly/react-icons/dist/esm/icons/trash-icon";
import type { JobRow } from "../api/client";
import { inLocalTime } from "../format/times-in-text";
import { messages } from "../messages";

const text = messages.jobs;

type Look = Pick<LabelProps, "color" | "icon">;

const looks: Record<NonNullable<JobRow["health"]>, Look> = {
  waiting: { color: "grey", icon: <PendingIcon /> },
  suspended: { color: "yellow", icon: <PauseCircleIcon /> },
  running: { color: "blue", icon: <InProgressIcon /> },
  degraded: { color: "orange", icon: <ExclamationTriangleIcon /> },
  succeeded: { color: "green", icon: <CheckCircleIcon /> },
  failed: { color: "red", icon: <ExclamationCircleIcon /> },
  cancelled: { color: "grey", icon: <BanIcon /> },
  deleting: { color: "grey", icon: <TrashIcon /> },
};

/** The look of a job; a word of a newer service has no colour and no shape. */
export function lookOf({ health }: Pick<JobRow, "health">): Look {
  return (health && looks[health]) || { color: "grey" };
}

export function JobState({ row, isCompact = true }: { row: JobRow; isCompact?: boolean }) {
  return (
    <Label className="app-label" isCompact={isCompact} {...lookOf(row)} title={row.message && inLocalTime(row.message)}>
      <span className="app-label-word">{row.state}</span>
    </Label>
  );
}

/** `7/8 Running, 1 Pending`. */
export function workersText(row: JobRow): string {
  const { running = 0, pending = 0, failed = 0, of = 0 } = row.workers ?? {};
  if (row.ended) return failed ? text.failedSummary(failed, of) : text.workers(of);
  const parts = [text.running(running, of)];
  if (pending) parts.push(text.pending(pending));
  if (failed) parts.push(text.failedWorkers(failed));
  return parts.join(", ");
}
