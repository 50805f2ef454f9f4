// The figures at the top of the overview, from what the service counts. What a person may not read is undefined, never 0.

import type { JobRow, Schemas } from "../api/client";
import { secondsBetween } from "../format/time";
import { withTotal } from "./models";

type Counts = Pick<Schemas["Overview"], "models" | "nodes" | "quotas" | "unread">;
type Team = { namespace: string; percent: number };

/** From this part of its quota on, a team is soon refused. */
export const nearQuota = 90;
export const longRunningSeconds = 86_400;

export type Figures = {
  gpus: number | undefined;
  used: number | undefined;
  free: number | undefined;
  asked: number | undefined;
  unusableNodes: number | undefined;
  /** The fullest first. */
  nearQuota: Team[] | undefined;
};

export function figuresOf({ models, nodes, quotas, unread }: Counts): Figures {
  const hasNodes = !unread.includes("nodes");
  const all = models.length ? withTotal(models).at(-1) : { gpus: 0, used: 0, free: 0, asked: 0 };
  // Without the nodes, models are only what pods ask for.
  const hasAll = hasNodes || models.length > 0;
  return {
    gpus: hasNodes ? all?.gpus : undefined,
    used: hasNodes ? all?.used : undefined,
    free: hasNodes ? all?.free : undefined,
    asked: hasAll ? all?.asked : undefined,
    unusableNodes: hasNodes ? nodes.filter(({ usable }) => !usable).length : undefined,
    nearQuota: unread.includes("quotas")
      ? undefined
      : quotas
          .filter(({ percent }) => percent >= nearQuota)
          .map(({ namespace = "", percent }) => ({ namespace, percent }))
          .sort((a, b) => b.percent - a.percent),
  };
}

/** How many of the jobs that run longest run for more than a day. */
export function longRunning(rows: readonly Pick<JobRow, "runningSince">[], now: number): number {
  return rows.filter(
    ({ runningSince }) => runningSince && secondsBetween(runningSince, undefined, now) > longRunningSeconds,
  ).length;
}
