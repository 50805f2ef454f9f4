// The way of a job, step by step, and who must act where it does not go on.

import { ProgressStep, ProgressStepper } from "@patternfly/react-core";
import type { JobStep } from "../api/client";
import { messages } from "../messages";

const text = messages.job.phases;
const variants = {
  Done: "success",
  Active: "info",
  Blocked: "warning",
  Failed: "danger",
  Waiting: "pending",
  Skipped: "pending",
} as const;

export function PhasesBar({ steps, workers }: { steps: readonly JobStep[]; workers: number }) {
  return (
    <ProgressStepper isCenterAligned aria-label={text.title} className="job-phases">
      {steps.map(({ name = "Queue", state = "Waiting", actor, workersDone }) => {
        const current = state === "Active" || state === "Blocked" || state === "Failed";
        return (
          <ProgressStep
            key={name}
            id={`phase-${name}`}
            titleId={`phase-${name}-title`}
            variant={variants[state]}
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
