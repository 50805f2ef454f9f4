// What the page of a job says above its tabs: it is gone or replaced, the page is stale, or something is wrong that its state does not show.

import { Alert, AlertActionLink } from "@patternfly/react-core";
import { useNavigate } from "react-router-dom";
import type { Job } from "../api/client";
import { hasCode } from "../api/problem";
import { ErrorAlert } from "../components/states";
import { messages } from "../messages";

const text = messages.job;

type NoticesProps = { error: unknown; job: Job; isReplaced: boolean; onRetry: () => void };

export function Notices({ error, job, isReplaced, onRetry }: NoticesProps) {
  const navigate = useNavigate();
  if (hasCode(error, "NotFound"))
    return (
      <Alert
        isInline
        isLiveRegion
        component="h2"
        variant="warning"
        title={text.gone.title(job.row?.name ?? "")}
        actionLinks={<AlertActionLink onClick={() => void navigate("/jobs")}>{text.deletedToList}</AlertActionLink>}
      >
        {text.gone.body}
      </Alert>
    );
  return (
    <>
      {Boolean(error) && <ErrorAlert error={error} title={text.stale} onRetry={onRetry} />}
      {isReplaced && (
        <Alert isInline isLiveRegion component="h2" variant="info" title={text.replaced.title}>
          {text.replaced.body}
        </Alert>
      )}
      {job.warnings.length > 0 && (
        <Alert isInline component="h2" variant="warning" title={text.warnings}>
          <bdi>{job.warnings.join(". ")}</bdi>
        </Alert>
      )}
      {job.unread.length > 0 && (
        <Alert isInline component="h2" variant="warning" title={text.unread}>
          <bdi>{job.unread.join("; ")}</bdi>
        </Alert>
      )}
    </>
  );
}
