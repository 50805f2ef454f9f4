// One line of a log.

import { Button } from "@patternfly/react-core";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import ThumbtackIcon from "@patternfly/react-icons/dist/esm/icons/thumbtack-icon";
import { type ComponentType, memo } from "react";
import { clock, exact } from "../../format/time";
import { messages } from "../../messages";
import type { Line } from "./buffer";
import { pieces } from "./highlight";
import type { Finder } from "./pattern";
import { shorten } from "./text";

const text = messages.job.logs;

const signs: Partial<Record<string, ComponentType>> = {
  warning: ExclamationTriangleIcon,
  error: ExclamationCircleIcon,
};

export type Columns = { times: boolean; pods: boolean; wrap: boolean };

type Props = {
  line: Line;
  number: number;
  columns: Columns;
  pattern: Finder | undefined;
  isChosen: boolean;
  onChoose: (at: number) => void;
  onWhole: (number: number) => void;
};

export const LineRow = memo(function LineRow({ line, number, columns, pattern, isChosen, onChoose, onWhole }: Props) {
  const { text: shown, more } = shorten(line.text);
  return (
    <div className={classOf(line, isChosen)}>
      {columns.times && (
        <button
          type="button"
          className="log-time"
          // The keyboard chooses the line at the top of the view, and need not walk through all lines.
          tabIndex={-1}
          title={Number.isNaN(line.at) ? undefined : exact(line.at)}
          aria-label={Number.isNaN(line.at) ? text.noTime : messages.job.moment.choose(clock(line.at), "")}
          onClick={() => onChoose(line.at)}
        >
          {Number.isNaN(line.at) ? "" : clock(line.at)}
        </button>
      )}
      {columns.pods && <span className="log-pod">{sourceOf(line)}</span>}
      <Sign line={line} />
      <span className="log-text" dir="ltr">
        {pieces(shown, pattern).map((piece, place) =>
          piece.found ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: a part of a line has no other name.
            <mark key={place}>{piece.text}</mark>
          ) : (
            piece.text
          ),
        )}
      </span>
      {more > 0 && (
        <Button variant="link" isInline className="log-more" onClick={() => onWhole(number)}>
          {text.cut(more)}
        </Button>
      )}
      {line.also.length > 0 && (
        <Button variant="link" isInline className="log-more" onClick={() => onWhole(number)}>
          {text.also(line.also.length)}
        </Button>
      )}
    </div>
  );
});

/** What stands out in a line, as a shape and a word: the colours around it are not for everybody. */
function Sign({ line: { evidence, level } }: { line: Line }) {
  const Shape = evidence ? ThumbtackIcon : level && signs[level];
  const words = [evidence && text.evidence, level && signs[level] && text.levelWords[level]].filter(Boolean);
  return (
    <span className="log-sign" title={words.join(", ") || undefined}>
      {Shape && <Shape aria-hidden />}
      {words.length > 0 && <span className="pf-v6-u-screen-reader">{words.join(", ")}</span>}
    </span>
  );
}

function classOf(line: Line, isChosen: boolean): string {
  const names = ["log-line", `log-${line.kind}`];
  if (line.level) names.push(`log-is-${line.level}`);
  if (line.evidence) names.push("log-evidence");
  if (isChosen) names.push("log-chosen");
  return names.join(" ");
}

/** `launcher`, `worker-3`, and the rank: the part of the pod's name that tells pods of a job apart. */
export function sourceOf({ pod, rank }: { pod?: string; rank?: number }): string {
  const role = /(?:launcher|worker-\d+)(?=-[a-z0-9]{5}$|$)/.exec(pod ?? "")?.[0] ?? pod ?? "";
  return rank === undefined ? role : `${role} ${text.rank(rank)}`;
}
