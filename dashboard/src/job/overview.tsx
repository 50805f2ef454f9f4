// The first tab: what state the job is in, why, what to do, and how its Workers are.

import { Card, CardBody, CardTitle, Grid, GridItem } from "@patternfly/react-core";
import { useId, useState } from "react";
import { messages } from "../messages";
import { AttemptsCard } from "./attempts-card";
import { ErrorCard } from "./error-card";
import { stateText, workersOf } from "./health";
import { InShort } from "./in-short";
import { PodDetails } from "./pod-details";
import { StepsCard } from "./steps-card";
import type { JobTab } from "./tab";
import { Timeline } from "./timeline";
import { timelineOf } from "./timeline-items";
import { hasEnded, useJobEvents } from "./use-job";
import { SuspendedCard, WaitingCard } from "./waiting-card";
import { WorkerGrid } from "./worker-grid";

const text = messages.job;

export function Overview({ job, jobRef, manifest, live, isGone, may, start }: JobTab) {
  const { data: events = [] } = useJobEvents(jobRef, live);
  const { health, ended } = job.row ?? {};
  return (
    <Grid hasGutter>
      {(health === "failed" || health === "cancelled") && (
        <GridItem>
          <ErrorCard job={job} jobRef={jobRef} isGone={isGone} mayCreate={may("create")} />
        </GridItem>
      )}
      {health === "suspended" && !isGone && (
        <GridItem>
          <SuspendedCard job={job} start={start} mayPatch={may("patch")} />
        </GridItem>
      )}
      {health !== "suspended" && !ended && !isGone && (
        <GridItem>
          <WaitingCard job={job} jobRef={jobRef} />
        </GridItem>
      )}
      <GridItem>
        <InShort job={job} jobRef={jobRef} manifest={manifest} live={live} />
      </GridItem>
      <GridItem>
        <StepsCard job={job} />
      </GridItem>
      <GridItem xl={7}>
        <WorkersCard job={job} jobRef={jobRef} manifest={manifest} events={events} />
      </GridItem>
      <GridItem xl={5}>
        <Grid hasGutter>
          <GridItem>
            <Card component="section" aria-labelledby="timeline-title">
              <CardTitle component="h2" id="timeline-title">
                {text.timeline.title}
              </CardTitle>
              <CardBody>
                <Timeline moments={timelineOf(job, events)} />
                {job.attempts > 1 && <p className="job-note">{text.timeline.attempts(job.attempts)}</p>}
              </CardBody>
            </Card>
          </GridItem>
          <GridItem>
            <AttemptsCard jobRef={jobRef} />
          </GridItem>
        </Grid>
      </GridItem>
    </Grid>
  );
}

type WorkersProps = Pick<JobTab, "job" | "jobRef" | "manifest"> & {
  events: Parameters<typeof PodDetails>[0]["events"];
};

function WorkersCard({ job, jobRef, manifest, events }: WorkersProps) {
  const [chosen, choose] = useState<number>();
  const id = useId();
  const workers = workersOf(job);
  const worker = workers.find(({ index }) => index === chosen);
  return (
    <Card component="section" aria-labelledby={id}>
      <CardTitle component="h2" id={id}>
        {text.workers.title}
      </CardTitle>
      <CardBody>
        {workers.length > 0 ? (
          <WorkerGrid workers={workers} manifest={manifest} chosen={chosen} onChoose={choose} />
        ) : (
          <p className="job-note">{text.workers.noPods}</p>
        )}
        <div aria-live="polite">
          {worker ? (
            <>
              <h3 className="job-subtitle">
                <bdi>{worker.pod?.name ?? text.workers.name(worker.index)}</bdi>
              </h3>
              {worker.pod ? (
                <PodDetails
                  key={worker.pod.name}
                  jobRef={jobRef}
                  pod={worker.pod}
                  state={stateText(worker)}
                  manifest={manifest}
                  events={events}
                  heading="h4"
                />
              ) : (
                <p className="job-note">{hasEnded(job) ? text.workers.removed : text.workers.notYet}</p>
              )}
            </>
          ) : (
            workers.length > 0 && <p className="job-note">{text.workers.hint}</p>
          )}
        </div>
      </CardBody>
    </Card>
  );
}
