// Whether changes appear by themselves; screen readers hear when that changes.

import { Button, Label, Popover } from "@patternfly/react-core";
import BoltIcon from "@patternfly/react-icons/dist/esm/icons/bolt-icon";
import PluggedIcon from "@patternfly/react-icons/dist/esm/icons/plugged-icon";
import SyncAltIcon from "@patternfly/react-icons/dist/esm/icons/sync-alt-icon";
import type { Freshness } from "../api/freshness";
import { useFreshness, useStreamState } from "../api/live";
import type { StreamState } from "../api/stream";
import { timeOfDay } from "../format/time";
import { messages } from "../messages";

const text = messages.common.live;
const looks = {
  connecting: { status: undefined, icon: <PluggedIcon /> },
  live: { status: "success", icon: <BoltIcon /> },
  polled: { status: "warning", icon: <SyncAltIcon /> },
  stale: { status: "danger", icon: <PluggedIcon /> },
  ended: { status: "danger", icon: <PluggedIcon /> },
} as const;

export function LiveState() {
  const stream = useStreamState();
  const freshness = useFreshness(stream);
  const word = freshness && wordOf(freshness);
  return (
    <div className="app-live">
      <span role="status" className="pf-v6-screen-reader">
        {word}
      </span>
      {freshness && (
        <Popover aria-label={word} bodyContent={hint(freshness, stream)} showClose={false} position="bottom">
          <Button variant="plain" hasNoPadding aria-label={word}>
            <Label isCompact variant="outline" {...looks[freshness.state]}>
              <span className="app-live-word">{word}</span>
            </Label>
          </Button>
        </Popover>
      )}
    </div>
  );
}

function wordOf(freshness: Freshness): string {
  if (freshness.state !== "stale") return text[freshness.state];
  return freshness.since === undefined ? text.neverUpdated : text.stale(timeOfDay(freshness.since));
}

function hint({ state }: Freshness, stream: StreamState | undefined): string {
  if (stream?.state === "ended") return stream.error.message;
  if (state === "polled") return text.polledHint;
  return state === "live" ? text.liveHint : text.staleHint;
}
