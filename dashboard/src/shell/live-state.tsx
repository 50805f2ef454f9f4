// Whether changes appear by themselves; screen readers hear when that changes.

import { Button, Label, Popover } from "@patternfly/react-core";
import BoltIcon from "@patternfly/react-icons/dist/esm/icons/bolt-icon";
import PluggedIcon from "@patternfly/react-icons/dist/esm/icons/plugged-icon";
import SyncAltIcon from "@patternfly/react-icons/dist/esm/icons/sync-alt-icon";
import { useStreamState } from "../api/live";
import type { StreamState } from "../api/stream";
import { messages } from "../messages";

const text = messages.common.live;
const looks = {
  connecting: { status: undefined, icon: <PluggedIcon /> },
  live: { status: "success", icon: <BoltIcon /> },
  cut: { status: "warning", icon: <SyncAltIcon /> },
  ended: { status: "danger", icon: <PluggedIcon /> },
} as const;

export function LiveState() {
  const stream = useStreamState();
  return (
    <div className="app-live">
      <span role="status" className="pf-v6-screen-reader">
        {stream && text[stream.state]}
      </span>
      {stream && (
        <Popover aria-label={text[stream.state]} bodyContent={hint(stream)} showClose={false} position="bottom">
          <Button variant="plain" hasNoPadding aria-label={text[stream.state]}>
            <Label isCompact variant="outline" status={looks[stream.state].status} icon={looks[stream.state].icon}>
              <span className="app-live-word">{text[stream.state]}</span>
            </Label>
          </Button>
        </Popover>
      )}
    </div>
  );
}

function hint(stream: StreamState): string {
  if (stream.state === "ended") return stream.error.message;
  return stream.state === "cut" ? text.cutHint : text.liveHint;
}
