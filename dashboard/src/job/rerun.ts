// Runs a job again, as another job, and goes to that one.

import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "react-router-dom";
import { ask, client } from "../api/client";
import { useToast } from "../components/toasts";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { type Ref, renew } from "./use-job";

const text = messages.job.failure;
const path = "/api/v1/namespaces/{namespace}/jobs/{kind}/{name}";

export type Rerun = { how: "retry" | "clone"; newName?: string; set?: string[] };

export function useRerun(job: Ref) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { show } = useToast();
  return useMutation({
    mutationFn: ({ how, ...body }: Rerun) => {
      const request = { params: { path: job }, body };
      return ask(how === "retry" ? client.POST(`${path}/retry`, request) : client.POST(`${path}/clone`, request));
    },
    onSuccess: ({ job: created }, { how }) => {
      renew(queries, job);
      const name = created?.name ?? "";
      show(how === "retry" ? text.retried(name) : text.created(name));
      if (created) void navigate(jobAddress(created));
    },
  });
}
