// The phases of a job, while they matter: folded where it ended well.

import { Card, CardBody, CardExpandableContent, CardHeader, CardTitle } from "@patternfly/react-core";
import { useState } from "react";
import type { Job } from "../api/client";
import { messages } from "../messages";
import { PhasesBar } from "./phases-bar";

const text = messages.job.phases;

export function PhasesCard({ job }: { job: Job }) {
  const { health, workers } = job.row ?? {};
  // A job that ends meanwhile keeps what a person looks at.
  const [isOpen, setOpen] = useState(health !== "succeeded");
  return (
    <Card component="section" aria-labelledby="phases-title" isExpanded={isOpen}>
      <CardHeader
        onExpand={() => setOpen(!isOpen)}
        toggleButtonProps={{ "aria-label": text.show, "aria-expanded": isOpen }}
      >
        <CardTitle component="h2" id="phases-title">
          {text.title}
        </CardTitle>
      </CardHeader>
      <CardExpandableContent>
        <CardBody>
          <PhasesBar steps={job.steps} workers={workers?.of ?? 0} health={health} />
        </CardBody>
      </CardExpandableContent>
    </Card>
  );
}
