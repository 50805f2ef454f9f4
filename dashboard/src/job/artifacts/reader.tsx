// A small pod that reads the job's claims after its own pods have ended: started on request, and shown until it runs.

import { Button } from "@patternfly/react-core";
import HddIcon from "@patternfly/react-icons/dist/esm/icons/hdd-icon";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ask, client } from "../../api/client";
import type { ProblemError } from "../../api/problem";
import { ErrorAlert, NothingHere } from "../../components/states";
import { messages } from "../../messages";
import type { Ref } from "../use-job";

const text = messages.job.artifacts;
const path = "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/reader";
const interval = 1500;

type Props = { jobRef: Ref; problem: ProblemError; mayStart: boolean | undefined };

export function StartReader({ jobRef, problem, mayStart }: Props) {
  const [isWanted, setWanted] = useState(false);
  const queries = useQueryClient();
  const { data, error } = useQuery({
    queryKey: ["reader", jobRef],
    queryFn: ({ signal }) => ask(client.POST(path, { params: { path: jobRef }, body: {}, signal })),
    enabled: isWanted,
    refetchInterval: ({ state }) => (state.data?.ready || state.error ? false : interval),
    retry: false,
    gcTime: 0,
  });
  const isReady = data?.ready ?? false;
  useEffect(() => {
    if (isReady) void queries.invalidateQueries({ queryKey: ["artifacts", jobRef] });
  }, [isReady, queries, jobRef]);
  if (mayStart === false)
    return (
      <NothingHere title={text.ended} icon={HddIcon}>
        <bdi>{problem.message}.</bdi> {text.mayNotStart}
      </NothingHere>
    );
  const isStarting = isWanted && !error;
  return (
    <NothingHere
      title={text.ended}
      icon={HddIcon}
      actions={
        <Button isLoading={isStarting} isDisabled={isStarting} onClick={() => setWanted(true)}>
          {text.startReader}
        </Button>
      }
    >
      {error && <ErrorAlert error={error} title={text.notStarted} />}
      <span role="status">
        {isStarting && data ? (
          text.starting(data.pod ?? "", data.waitsFor ?? "")
        ) : (
          <bdi>{text.hint(problem.problem.hint ?? "")}</bdi>
        )}
      </span>
    </NothingHere>
  );
}
