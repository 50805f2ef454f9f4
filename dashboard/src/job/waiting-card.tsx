// What keeps a job from starting, or why it is tried again, and what to do about it.

import { Button, Card, CardBody, CardFooter, CardTitle, Icon, List, ListItem } from "@patternfly/react-core";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import PauseCircleIcon from "@patternfly/react-icons/dist/esm/icons/pause-circle-icon";
import type { Finding, Job } from "../api/client";
import { Sentence } from "../components/sentences";
import { sentence } from "../format/words";
import type { StartAction } from "../jobs/start-action";
import { messages } from "../messages";
import { readable } from "./logs/text";
import { type Ref, useFindings } from "./use-job";

const text = messages.job.waiting;

export function SuspendedCard({
  job,
  start,
  mayPatch,
}: {
  job: Job;
  start: StartAction;
  mayPatch: boolean | undefined;
}) {
  return (
    <Card component="section" aria-labelledby="suspended-title">
      <CardTitle component="h2" id="suspended-title">
        <Icon status="warning" isInline>
          <PauseCircleIcon />
        </Icon>{" "}
        {text.suspended}
      </CardTitle>
      <CardBody>{text.suspendedBody}</CardBody>
      <CardFooter>
        <Button isAriaDisabled={mayPatch === false} onClick={() => job.row && start("resume", [job.row])}>
          {text.resume}
        </Button>
        {mayPatch === false && <p className="job-note">{messages.job.actions.forbidden}</p>}
      </CardFooter>
    </Card>
  );
}

export function WaitingCard({ job, jobRef }: { job: Job; jobRef: Ref }) {
  const { data: findings = [] } = useFindings(jobRef, job);
  const waits = podWaits(job);
  const waiting = job.waiting;
  const reason = waiting?.cause || findings[0]?.reason;
  if (!reason) return null;
  return (
    <Card component="section" aria-labelledby="waiting-title">
      <CardTitle component="h2" id="waiting-title">
        <Icon status="warning" isInline>
          <ExclamationTriangleIcon />
        </Icon>{" "}
        {job.row?.phaseReason === "Retrying" ? text.retrying(sentence(reason)) : text.titleOf(sentence(reason))}
      </CardTitle>
      <CardBody>
        {waiting?.actor && waiting.actor !== "Nobody" && (
          <p>
            <strong>{messages.job.steps.actors[waiting.actor]}</strong>
          </p>
        )}
        {waiting?.cause && !findings.some(({ reason }) => reason === waiting.cause) && (
          <FindingText finding={{ message: waiting.message, advice: waiting.suggestion }} />
        )}
        {findings.map((finding) => (
          <FindingText key={`${finding.reason} ${finding.message}`} finding={finding} />
        ))}
        <List isPlain>
          {waits.map(([why, pods]) => (
            <ListItem key={why} className="job-note">
              {text.pods(pods)}: <Sentence text={readable(why)} />
            </ListItem>
          ))}
        </List>
      </CardBody>
    </Card>
  );
}

function FindingText({ finding: { message = "", advice = "" } }: { finding: Finding }) {
  return (
    <p className="job-message">
      <Sentence text={message} />
      {advice && (
        <>
          {". "}
          <strong>{messages.job.failure.whatToDo}:</strong> <Sentence text={advice} />
        </>
      )}
    </p>
  );
}

/** What pods wait for, each reason once, with the number of pods. */
export function podWaits(job: Pick<Job, "pods">): [string, number][] {
  const counts = new Map<string, number>();
  for (const { waitsFor } of job.pods) if (waitsFor) counts.set(waitsFor, (counts.get(waitsFor) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a);
}
