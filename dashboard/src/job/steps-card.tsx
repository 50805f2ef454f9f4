// The steps of a job, while they matter: folded where it ended well.

import { Card, CardBody, CardExpandableContent, CardHeader, CardTitle } from "@patternfly/react-core";
import { useState } from "react";
import type { Job } from "../api/client";
import { messages } from "../messages";
import { StepsBar } from "./steps-bar";

const text = messages.job.steps;

export function StepsCard({ job }: { job: Job }) {
  const { health, workers } = job.row ?? {};
  // A job that ends meanwhile keeps what a person looks at.
  const [isOpen, setOpen] = useState(health !== "succeeded");
  return (
    <Card component="section" aria-labelledby="steps-title" isExpanded={isOpen}>
      <CardHeader
        onExpand={() => setOpen(!isOpen)}
        toggleButtonProps={{ "aria-label": text.show, "aria-expanded": isOpen }}
      >
        <CardTitle component="h2" id="steps-title">
          {text.title}
        </CardTitle>
      </CardHeader>
      <CardExpandableContent>
        <CardBody>
          <StepsBar steps={job.steps} workers={workers?.of ?? 0} health={health} />
        </CardBody>
      </CardExpandableContent>
    </Card>
  );
}
