// What a tab of a job's page is given. A leaf, so that the page can import its tabs.

import type { Job } from "../api/client";
import type { StartAction } from "../jobs/start-action";
import type { Manifest } from "./manifest";
import type { Ref } from "./use-job";

/** What every tab gets. */
export type JobTab = {
  job: Job;
  jobRef: Ref;
  manifest: Manifest;
  /** Whether the job may still change. */
  live: boolean;
  /** Whether it was deleted: then nothing can be done with it. */
  isGone: boolean;
  may: (verb: string, resource?: string) => boolean | undefined;
  start: StartAction;
};
