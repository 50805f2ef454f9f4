// Why the job failed, what that rests on, and the fix: one click on a copy with one change. Of a job that a person ended, that.

import {
  ActionList,
  ActionListGroup,
  ActionListItem,
  Button,
  Card,
  CardBody,
  CardFooter,
  CardTitle,
  CodeBlock,
  CodeBlockCode,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Icon,
} from "@patternfly/react-core";
import BanIcon from "@patternfly/react-icons/dist/esm/icons/ban-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import { Fragment, useState } from "react";
import { Link } from "react-router-dom";
import type { Fix, Job } from "../api/client";
import { guideSection } from "../api/docs";
import { LinkButton } from "../components/link-button";
import { Sentence } from "../components/sentences";
import { ErrorAlert } from "../components/states";
import { bytes, quantityText } from "../format/quantity";
import { duration } from "../format/time";
import { sentence } from "../format/words";
import { cloneAddress } from "../jobs/actions";
import { messages } from "../messages";
import { FixDialog } from "./fix-dialog";
import { shorten } from "./logs/text";
import { useRerun } from "./rerun";
import type { Ref } from "./use-job";

const text = messages.job.failure;

type Props = { job: Job; jobRef: Ref; isGone: boolean; mayCreate: boolean | undefined };

export function ErrorCard({ job, jobRef, isGone, mayCreate }: Props) {
  const failure = job.failure ?? { evidence: [] };
  const cause = failure.cause || job.row?.cause || job.row?.phaseReason || "";
  const wasCancelled = job.row?.health === "cancelled";
  const guide = guideSection(failure.link);
  return (
    <Card component="section" aria-labelledby="failure-title">
      <CardTitle component="h2" id="failure-title">
        {wasCancelled ? (
          <Icon isInline>
            <BanIcon />
          </Icon>
        ) : (
          <Icon status="danger" isInline>
            <ExclamationCircleIcon />
          </Icon>
        )}{" "}
        {wasCancelled ? job.row?.state : cause ? text.titleOf(sentence(cause)) : text.title}
      </CardTitle>
      <CardBody>
        <p className="job-message">
          <Sentence text={failure.message ? shorten(failure.message).text : text.unknown} />
        </p>
        <DescriptionList orientation={{ sm: "horizontal" }} isCompact horizontalTermWidthModifier={{ default: "16ch" }}>
          {failure.suggestion && !wasCancelled && (
            <Fact term={text.whatToDo}>
              <Sentence text={failure.suggestion} />{" "}
              {guide && (
                <a href={guide} target="_blank" rel="noreferrer">
                  {text.guide}
                </a>
              )}
            </Fact>
          )}
          {failure.actor && !wasCancelled && <Fact term={text.whoActs}>{text.actors[failure.actor]}</Fact>}
          {(failure.worker !== undefined || failure.pod) && (
            <Fact term={text.where}>
              {failure.worker === undefined ? (
                <bdi>{failure.pod}</bdi>
              ) : (
                <Link to={{ pathname: "workers", search: `?worker=${failure.worker}` }}>
                  {text.worker(failure.worker)}
                </Link>
              )}
            </Fact>
          )}
          {failure.exitCode !== undefined && <Fact term={text.exitCode}>{failure.exitCode}</Fact>}
          {job.row?.finished && (
            <Fact term={text.moment}>
              <MomentLinks at={job.row.finished} />
            </Fact>
          )}
        </DescriptionList>
        <Lines title={text.evidence} lines={failure.evidence} />
        <Lines title={text.lastLines} lines={unquoted(job.lastLines, failure.evidence)} />
      </CardBody>
      {!isGone && (
        <CardFooter>
          <Actions fix={job.fixes[0]} jobRef={jobRef} mayCreate={mayCreate} />
        </CardFooter>
      )}
    </Card>
  );
}

function Fact({ term, children }: { term: string; children: React.ReactNode }) {
  return (
    <DescriptionListGroup>
      <DescriptionListTerm>{term}</DescriptionListTerm>
      <DescriptionListDescription>{children}</DescriptionListDescription>
    </DescriptionListGroup>
  );
}

/** To what else happened when the job failed. */
function MomentLinks({ at }: { at: string }) {
  const search = `?${new URLSearchParams({ at })}`;
  return (["metrics", "logs", "events"] as const).map((pathname, place) => (
    <Fragment key={pathname}>
      {place > 0 && ", "}
      <Link to={{ pathname, search }}>{messages.job.tabs[pathname]}</Link>
    </Fragment>
  ));
}

/** What the program said last, unless all of it is among the evidence. */
export function unquoted(lines: readonly string[], evidence: readonly string[]): readonly string[] {
  const quoted = new Set(evidence.map((line) => line.trim()));
  return lines.every((line) => quoted.has(line.trim())) ? [] : lines;
}

/** Lines of output, each once. */
function Lines({ title, lines }: { title: string; lines: readonly string[] }) {
  const different = [...new Set(lines)].map((line) => shorten(line, 500).text);
  if (!different.length) return null;
  return (
    <>
      <h3 className="job-subtitle">{title}</h3>
      <CodeBlock className="job-evidence">
        <CodeBlockCode>{different.join("\n")}</CodeBlockCode>
      </CodeBlock>
    </>
  );
}

function Actions({ fix, jobRef, mayCreate }: Pick<Props, "jobRef" | "mayCreate"> & { fix: Fix | undefined }) {
  const [open, setOpen] = useState(false);
  const rerun = useRerun(jobRef);
  const refused = mayCreate === false;
  // What only a person can know, such as the right name of an image, is asked for first.
  const known = Boolean(fix?.proposed);
  const set = fix ? [`${fix.path}=${fix.proposed}`] : [];
  return (
    <>
      {rerun.error && <ErrorAlert error={rerun.error} title={text.notCreated} />}
      <ActionList className="job-actions">
        <ActionListGroup>
          {fix && (
            <ActionListItem>
              <Button
                onClick={() => (known ? rerun.mutate({ how: "clone", set }) : setOpen(true))}
                isLoading={rerun.isPending}
                isAriaDisabled={refused || rerun.isPending}
              >
                {label(fix)}
              </Button>
            </ActionListItem>
          )}
          {known && (
            <ActionListItem>
              <Button variant="secondary" onClick={() => setOpen(true)} isAriaDisabled={refused}>
                {text.other}
              </Button>
            </ActionListItem>
          )}
          <ActionListItem>
            <Button
              variant={fix ? "secondary" : "primary"}
              onClick={() => rerun.mutate({ how: "retry" })}
              isAriaDisabled={refused || rerun.isPending}
            >
              {text.retry}
            </Button>
          </ActionListItem>
          <ActionListItem>
            <LinkButton variant="secondary" to={cloneAddress(jobRef)}>
              {text.clone}
            </LinkButton>
          </ActionListItem>
          <ActionListItem>
            <LinkButton variant="link" to={{ pathname: "logs", search: "?show=evidence" }}>
              {text.logs}
            </LinkButton>
          </ActionListItem>
        </ActionListGroup>
      </ActionList>
      {refused && <p className="job-note">{messages.job.actions.forbidden}</p>}
      {open && fix && <FixDialog job={jobRef} fix={fix} onClose={() => setOpen(false)} />}
    </>
  );
}

function label({ kind, role = "", proposed = "" }: Fix): string {
  const words = messages.job.fix;
  if (kind === "memory") return words.memory(quantityText(proposed, bytes), role);
  if (kind === "deadline") return words.deadline(duration(Number(proposed)));
  if (kind === "workers") return words.workers(proposed);
  return words.image;
}
