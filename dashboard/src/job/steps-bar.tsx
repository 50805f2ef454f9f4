// The way of a job, step by step, and who must act where it does not go on.

import { ProgressStep, ProgressStepper } from "@patternfly/react-core";
import BanIcon from "@patternfly/react-icons/dist/esm/icons/ban-icon";
import type { JobRow, JobStep } from "../api/client";
import { messages } from "../messages";

const text = messages.job.steps;
const variants = {
  Done: "success",
  Active: "info",
  Blocked: "warning",
  Failed: "danger",
  Cancelled: "default",
  Waiting: "pending",
  Skipped: "pending",
} as const;

type Props = { steps: readonly JobStep[]; workers: number; health: JobRow["health"] };

export function StepsBar({ steps, workers, health }: Props) {
  return (
    <ProgressStepper isCenterAligned aria-label={text.title} className="job-steps">
      {steps.map(({ name = "Queue", state: sent = "Waiting", actor, workersDone }) => {
        // A job that a person ended did not fail, and waits for nobody.
        const isCancelled = sent === "Failed" && health === "cancelled";
        const state = isCancelled ? "Cancelled" : sent;
        const current = state === "Active" || state === "Blocked" || state === "Failed";
        return (
          <ProgressStep
            key={name}
            id={`step-${name}`}
            titleId={`step-${name}-title`}
            variant={variants[state]}
            icon={isCancelled ? <BanIcon /> : undefined}
            isCurrent={current}
            aria-label={`${text.names[name]}: ${text.states[state]}`}
            description={
              current && (
                <>
                  {actor && <span>{text.actors[actor]}</span>}
                  {workersDone !== undefined && <span className="job-line">{text.count(workersDone, workers)}</span>}
                </>
              )
            }
          >
            {text.names[name]}
          </ProgressStep>
        );
      })}
    </ProgressStepper>
  );
}
