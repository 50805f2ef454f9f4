// One moment, chosen in any chart, log line, event or state and shown in all of them. It is in the address, so that a link leads to it.

import { Button, Flex, FlexItem, Label } from "@patternfly/react-core";
import ClockIcon from "@patternfly/react-icons/dist/esm/icons/clock-icon";
import { useCallback } from "react";
import { Link, useLocation, useSearchParams } from "react-router-dom";
import { locale } from "../format/locale";
import { clock, exact } from "../format/time";
import { messages } from "../messages";

const text = messages.job.moment;

/** The chosen moment, in milliseconds since 1970. */
export function useMoment(): [number | undefined, (at: number | undefined) => void] {
  const [query, setQuery] = useSearchParams();
  const at = parseMoment(query.get("at"));
  const choose = useCallback(
    (moment: number | undefined) =>
      setQuery(
        (before) => {
          const after = new URLSearchParams(before);
          if (moment === undefined || Number.isNaN(moment)) after.delete("at");
          else after.set("at", new Date(moment).toISOString());
          return after;
        },
        { replace: true, preventScrollReset: true },
      ),
    [setQuery],
  );
  return [at, choose];
}

export function parseMoment(at: string | null): number | undefined {
  const time = at ? Date.parse(at) : Number.NaN;
  return Number.isNaN(time) ? undefined : time;
}

/** The place of a moment in a list that is in the order of time: the last item at or before it. */
export function placeOf(times: readonly number[], at: number | undefined): number {
  return at === undefined ? -1 : times.findLastIndex((time) => time <= at);
}

/** Says which moment is chosen, and leads to what happened then. */
export function MomentBar({ tabs, hasTimes }: { tabs: { key: string; title: string }[]; hasTimes: boolean }) {
  const [at, choose] = useMoment();
  const { search } = useLocation();
  // Where a moment can be chosen, the bar has its place before: what is clicked must not move.
  return (
    <div role="status" className={at === undefined && !hasTimes ? undefined : "job-moment"}>
      {at === undefined ? (
        hasTimes && <span className="job-note">{text.hint}</span>
      ) : (
        <Flex alignItems={{ default: "alignItemsCenter" }} columnGap={{ default: "columnGapMd" }}>
          <FlexItem>
            <Label
              icon={<ClockIcon />}
              color="blue"
              title={exact(at)}
              onClose={() => choose(undefined)}
              closeBtnAriaLabel={text.clear}
            >
              {text.chosen(clock(at))}
            </Label>
          </FlexItem>
          {tabs.map(({ key, title }) => (
            <FlexItem key={key}>
              <Link to={{ pathname: key, search }}>{text.show(title)}</Link>
            </FlexItem>
          ))}
        </Flex>
      )}
    </div>
  );
}

const seconds = new Intl.DateTimeFormat(locale, { timeStyle: "medium", hour12: false });
const secondsAndDay = new Intl.DateTimeFormat(locale, { dateStyle: "short", timeStyle: "medium", hour12: false });
const day = 86_400_000;

/** The time of day to the second, which is all that the cluster keeps; with its date if that is not clear. */
export function moment(time: string | number, now = Date.now()): string {
  return (now - new Date(time).getTime() < day / 2 ? seconds : secondsAndDay).format(new Date(time));
}

/** A time that can be chosen, and what happened then. */
export function MomentButton({ time, what }: { time: string | number; what: string }) {
  const [at, choose] = useMoment();
  const own = new Date(time).getTime();
  return (
    <Button
      variant="link"
      isInline
      className="job-time"
      title={exact(time)}
      aria-label={text.choose(moment(time), what)}
      aria-pressed={at === own}
      onClick={() => choose(at === own ? undefined : own)}
    >
      {moment(time)}
    </Button>
  );
}
