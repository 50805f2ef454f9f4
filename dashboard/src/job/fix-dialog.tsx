// A copy of the job with one change, filled in. The service checks it while the person types.

import {
  Alert,
  Button,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useDeferredValue, useId, useState } from "react";
import { keys } from "../api/cache";
import { ask, client, type Fix } from "../api/client";
import { ErrorAlert } from "../components/states";
import { messages } from "../messages";
import { useRerun } from "./rerun";
import type { Ref } from "./use-job";

const text = messages.job.fix;

export function FixDialog({ job, fix, onClose }: { job: Ref; fix: Fix; onClose: () => void }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState(fix.proposed || fix.now || "");
  const rerun = useRerun(job);
  const id = useId();
  const request = { newName: name.trim() || undefined, set: [`${fix.path}=${value.trim()}`] };
  const settled = useDeferredValue(JSON.stringify(request));
  const check = useCheck(job, settled);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    rerun.mutate({ how: "clone", ...request }, { onSuccess: onClose });
  };
  const fieldName = fix.kind === "memory" ? text.fields.memory(fix.role ?? "") : text.fields[fix.kind ?? "image"];
  return (
    <Modal
      isOpen
      variant="small"
      onClose={onClose}
      aria-labelledby={`${id}-title`}
      aria-describedby={`${id}-body`}
      elementToFocus={`[id="${id}-value"]`}
    >
      <ModalHeader
        title={text.title(job.name)}
        labelId={`${id}-title`}
        description={text.body}
        descriptorId={`${id}-body`}
      />
      <ModalBody>
        <Form id={`${id}-form`} onSubmit={submit}>
          <FormGroup label={fieldName} fieldId={`${id}-value`} isRequired>
            <TextInput
              id={`${id}-value`}
              value={value}
              isRequired
              onChange={(_event, to) => setValue(to)}
              aria-describedby={`${id}-now`}
            />
            <FormHelperText>
              <HelperText id={`${id}-now`}>
                <HelperTextItem>{text.now(fix.now ?? "")}</HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
          <FormGroup label={text.name} fieldId={`${id}-name`}>
            <TextInput
              id={`${id}-name`}
              value={name}
              onChange={(_event, to) => setName(to)}
              aria-describedby={`${id}-hint`}
            />
            <FormHelperText>
              <HelperText id={`${id}-hint`}>
                <HelperTextItem>{text.nameHint}</HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
          <div aria-live="polite" className="job-check">
            {rerun.error ? (
              <ErrorAlert error={rerun.error} title={messages.job.failure.notCreated} />
            ) : check.error ? (
              <ErrorAlert error={check.error} />
            ) : (
              <Alert
                isInline
                isPlain
                component="p"
                variant={check.data ? "success" : "info"}
                title={check.data ? text.accepted(check.data.job?.name ?? "") : text.checking}
              />
            )}
          </div>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form={`${id}-form`} isLoading={rerun.isPending} isDisabled={rerun.isPending}>
          {text.submit}
        </Button>
        <Button variant="link" onClick={onClose}>
          {messages.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

type Clone = { newName?: string; set: string[] };

/** What the service says about a copy, without creating it. */
function useCheck(job: Ref, request: string) {
  return useQuery({
    queryKey: [...keys.job(job), "check", request],
    queryFn: ({ signal }) =>
      ask(
        client.POST("/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/clone", {
          params: { path: job },
          body: { ...(JSON.parse(request) as Clone), dryRun: true },
          signal,
        }),
      ),
    retry: false,
    gcTime: 0,
  });
}
