// The jobs that repeat the same one or were copied from it, to go to and to compare.

import { Card, CardBody, CardTitle, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { Link } from "react-router-dom";
import { JobState } from "../components/job-state";
import { Age, Duration } from "../components/time";
import { compareAddress, jobAddress, rowKey } from "../jobs/actions";
import { messages } from "../messages";
import { type Ref, useRelatives } from "./use-job";

const text = messages.job.attempts;
const mostCompared = 10;

export function AttemptsCard({ jobRef }: { jobRef: Ref }) {
  const { data } = useRelatives(jobRef);
  const jobs = data?.jobs ?? [];
  if (jobs.length < 2) return null;
  return (
    <Card component="section" aria-labelledby="attempts-title">
      <CardTitle component="h2" id="attempts-title">
        {text.title}
      </CardTitle>
      <CardBody>
        <Table aria-label={text.table} variant="compact" borders={false} gridBreakPoint="">
          <Thead>
            <Tr>
              <Th>{text.name}</Th>
              <Th>{text.state}</Th>
              <Th modifier="fitContent">{text.created}</Th>
              <Th modifier="fitContent">{text.ran}</Th>
            </Tr>
          </Thead>
          <Tbody>
            {jobs.map((row) => (
              <Tr key={rowKey(row)}>
                <Td dataLabel={text.name}>
                  {row.name === jobRef.name ? (
                    <>
                      <bdi>{row.name}</bdi> <Label isCompact>{text.this}</Label>
                    </>
                  ) : (
                    <Link to={jobAddress(row)}>
                      <bdi>{row.name}</bdi>
                    </Link>
                  )}
                </Td>
                <Td dataLabel={text.state}>
                  <JobState row={row} />
                </Td>
                <Td dataLabel={text.created}>
                  <Age time={row.created} />
                </Td>
                <Td dataLabel={text.ran}>
                  <Duration from={row.runningSince} to={row.finished} />
                </Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
        <Link to={compareAddress(jobs.slice(-mostCompared))} className="job-compare">
          {text.compare}
        </Link>
      </CardBody>
    </Card>
  );
}
