// What became of the job, in the order of time. Each time can be chosen as the moment that all tabs show.

import { Icon } from "@patternfly/react-core";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import CircleIcon from "@patternfly/react-icons/dist/esm/icons/circle-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import { Sentence } from "../components/sentences";
import { sentence } from "../format/words";
import { messages } from "../messages";
import { MomentButton, placeOf, useMoment } from "./cursor";
import { readable } from "./logs/text";
import type { Moment } from "./timeline-items";

const text = messages.job.timeline;
const looks = {
  neutral: { status: undefined, Shape: CircleIcon },
  good: { status: "success", Shape: CheckCircleIcon },
  bad: { status: "danger", Shape: ExclamationCircleIcon },
  warning: { status: "warning", Shape: ExclamationTriangleIcon },
} as const;

export function Timeline({ moments }: { moments: readonly Moment[] }) {
  const [at] = useMoment();
  const marked = placeOf(
    moments.map((moment) => Date.parse(moment.at)),
    at,
  );
  if (!moments.length) return <p>{text.empty}</p>;
  return (
    <ol className="job-timeline">
      {moments.map((moment, place) => {
        const { status, Shape } = looks[moment.look];
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: the same may happen twice in a second.
          <li key={`${place} ${moment.at}`} className={place === marked ? "job-marked" : undefined}>
            <Icon status={status} isInline size="sm" className={status ? undefined : "job-icon-plain"}>
              <Shape />
            </Icon>
            <MomentButton time={moment.at} what={titleOf(moment)} />
            <span>
              <strong>{titleOf(moment)}</strong> {moment.message && <Sentence text={readable(moment.message)} />}
              {place === marked && <span className="pf-v6-u-screen-reader">{messages.job.moment.mark}</span>}
            </span>
          </li>
        );
      })}
    </ol>
  );
}

function titleOf({ what, word }: Moment): string {
  if (what === "created") return text.created;
  if (what === "started") return text.started;
  return what === "event" ? sentence(word) : word;
}
