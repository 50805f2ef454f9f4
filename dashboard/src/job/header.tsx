// The head of the page: where the job belongs, its state, the facts in short, and what can be done with it.

import {
  Breadcrumb,
  BreadcrumbItem,
  Divider,
  Dropdown,
  DropdownItem,
  DropdownList,
  Label,
  MenuToggle,
} from "@patternfly/react-core";
import { type ReactNode, useState } from "react";
import { Link, useNavigate } from "react-router-dom";
import { JobState, workersText } from "../components/job-state";
import { PageHeader } from "../components/page-header";
import { Ago, Duration } from "../components/time";
import { useToast } from "../components/toasts";
import { duration } from "../format/time";
import { type Action, cloneAddress, compareAddress, permits } from "../jobs/actions";
import { messages } from "../messages";
import { useRerun } from "./rerun";
import type { JobTab } from "./tab";

const text = messages.job;

type Props = Omit<JobTab, "live">;

export function JobHeader(props: Props) {
  const { job, jobRef, isGone } = props;
  return (
    <PageHeader
      title={jobRef.name}
      breadcrumb={
        <Breadcrumb aria-label={text.breadcrumb} className="job-breadcrumb">
          <BreadcrumbItem>
            <Link to="/jobs">{messages.jobs.title}</Link>
          </BreadcrumbItem>
          <BreadcrumbItem>
            <Link to={`/jobs?namespace=${encodeURIComponent(jobRef.namespace)}`}>
              <bdi>{jobRef.namespace}</bdi>
            </Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>
            <bdi>{jobRef.name}</bdi>
          </BreadcrumbItem>
        </Breadcrumb>
      }
      badge={
        <span className="job-badges">
          <Label className="app-label" isCompact variant="outline">
            {messages.common.kinds[jobRef.kind]}
          </Label>
          <span role="status">{job.row && <JobState row={job.row} isCompact={false} />}</span>
        </span>
      }
      actions={!isGone && <Actions {...props} />}
    >
      <Facts {...props} />
    </PageHeader>
  );
}

function Facts({ job, jobRef, manifest }: Props) {
  const row = job.row;
  if (!row) return null;
  const { phase, runningSince, finished, created, progress } = row;
  const time =
    phase === "Pending" ? (
      <Duration from={created} />
    ) : runningSince ? (
      <Duration from={runningSince} to={finished} />
    ) : (
      text.facts.none
    );
  const timeTerm = phase === "Pending" ? text.facts.waiting : phase === "Running" ? text.facts.running : text.facts.ran;
  const origin = manifest.origin;
  return (
    <dl className="job-facts" aria-label={text.facts.label}>
      <Fact term={text.facts.workers}>{workersText(row)}</Fact>
      <Fact term={text.facts.gpus}>{row.gpus || text.facts.none}</Fact>
      <Fact term={timeTerm}>{time}</Fact>
      <Fact term={text.facts.created}>
        <Ago time={created} />
      </Fact>
      {progress && (
        <Fact term={text.facts.progress}>
          {messages.jobs.percent(progress.percent)}
          {progress.remainingSeconds !== undefined &&
            `, ${messages.jobs.timeLeft(duration(progress.remainingSeconds))}`}
        </Fact>
      )}
      {row.owner && <Fact term={text.facts.owner}>{row.owner}</Fact>}
      {row.queue && (
        <Fact term={text.facts.queue}>
          {row.queue}
          {row.queuePosition !== undefined && ` (${messages.jobs.place(row.queuePosition)})`}
        </Fact>
      )}
      {origin && (
        <Fact term={origin.how === "retry" ? text.attempts.retryOf : text.attempts.cloneOf}>
          <Link to={`/jobs/${encodeURIComponent(jobRef.namespace)}/${jobRef.kind}/${encodeURIComponent(origin.name)}`}>
            <bdi>{origin.name}</bdi>
          </Link>{" "}
          <Link to={compareAddress([{ ...row, name: origin.name }, row])} className="job-compare-two">
            {text.attempts.compareTwo}
          </Link>
        </Fact>
      )}
    </dl>
  );
}

function Fact({ term, children }: { term: string; children: ReactNode }) {
  return (
    <div>
      <dt>{term}</dt>
      <dd>
        <bdi>{children}</bdi>
      </dd>
    </div>
  );
}

// The permission that each action needs.
const verbs: Record<Action, string> = {
  suspend: "patch",
  resume: "patch",
  cancel: "patch",
  retry: "create",
  delete: "delete",
};

function Actions({ job, jobRef, may, start }: Props) {
  const [open, setOpen] = useState(false);
  const navigate = useNavigate();
  const rerun = useRerun(jobRef);
  const { fail } = useToast();
  const { row } = job;
  if (!row) return null;
  const item = (action: Action, run: () => void) => {
    const refused = may(verbs[action]) === false;
    return (
      <DropdownItem
        key={action}
        isDanger={action === "delete"}
        isAriaDisabled={!permits(row, action) || refused}
        tooltipProps={refused ? { content: text.actions.forbidden } : undefined}
        onClick={run}
      >
        {messages.jobs.actions[action]}
      </DropdownItem>
    );
  };
  return (
    <Dropdown
      shouldFocusFirstItemOnOpen
      isOpen={open}
      onOpenChange={setOpen}
      onSelect={() => setOpen(false)}
      popperProps={{ position: "right", appendTo: "inline" }}
      toggle={(toggle) => (
        <MenuToggle ref={toggle} isExpanded={open} onClick={() => setOpen(!open)}>
          {text.actions.toggle}
        </MenuToggle>
      )}
    >
      <DropdownList>
        {permits(row, "resume")
          ? item("resume", () => start("resume", [row]))
          : item("suspend", () => start("suspend", [row]))}
        {item("cancel", () => start("cancel", [row]))}
        {item("retry", () =>
          rerun.mutate({ how: "retry" }, { onError: (error) => fail(text.failure.notCreated, error) }),
        )}
        <DropdownItem key="clone" onClick={() => void navigate(cloneAddress(jobRef))}>
          {messages.jobs.actions.clone}
        </DropdownItem>
        <Divider component="li" />
        {item("delete", () => start("delete", [row]))}
      </DropdownList>
    </Dropdown>
  );
}
