// Creates a rule or changes one. The key that signs its webhooks is shown once.

import {
  Alert,
  Button,
  Checkbox,
  ClipboardCopy,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Radio,
  TextInput,
} from "@patternfly/react-core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask, client, kindOf, type Schemas } from "../api/client";
import { ErrorAlert } from "../components/states";
import { useToast } from "../components/toasts";
import { messages } from "../messages";

const text = messages.notifications;
const phases = ["Pending", "Running", "Succeeded", "Failed"] as const;
export type Rule = Schemas["NotificationRule"];
type Draft = { name: string; to: "webhook" | "email"; address: string; phases: string[]; job: string };

/** What writes a rule again as it is. */
export function bodyOf({ url, email, phases, reasons, causes, kind, job, enabled }: Rule) {
  const one = job ? { kind: kindOf(kind), job } : {};
  return { url, email, phases, reasons, causes, ...one, disabled: !enabled };
}

function draftOf(rule: Rule | undefined): Draft {
  if (!rule) return { name: "", to: "webhook", address: "", phases: ["Failed"], job: "" };
  const { name = "", url, email = "", job = "" } = rule;
  return { name, to: url ? "webhook" : "email", address: url || email, phases: rule.phases, job };
}

export function RuleForm({ namespace, rule, onClose }: { namespace: string; rule?: Rule; onClose: () => void }) {
  const queries = useQueryClient();
  const { show } = useToast();
  const [draft, setDraft] = useState<Draft>(() => draftOf(rule));
  const save = useMutation({
    mutationFn: () => {
      const { name, to, address, job } = draft;
      const target = to === "webhook" ? { url: address } : { email: address };
      // What the form does not show stays as it is.
      const before = rule && bodyOf(rule);
      const kept = { reasons: before?.reasons, causes: before?.causes, disabled: before?.disabled };
      const one = job ? { job, ...(job === rule?.job && { kind: kindOf(rule.kind) }) } : {};
      const body = { ...kept, ...target, ...one, phases: draft.phases };
      return ask(
        client.PUT("/api/v1/namespaces/{namespace}/notifications/{name}", {
          params: { path: { namespace, name } },
          body,
        }),
      );
    },
    onSuccess: (rule) => {
      void queries.invalidateQueries({ queryKey: ["rules"] });
      show(text.saved(draft.name));
      if (!rule.secret) onClose();
    },
  });
  const secret = save.data?.secret;
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-labelledby="rule-title">
      <ModalHeader title={rule ? text.edit(draft.name) : text.create} labelId="rule-title" />
      <ModalBody>
        {secret ? (
          <Alert isInline component="h2" variant="warning" title={text.secretTitle}>
            <p>{text.secretBody}</p>
            <ClipboardCopy isReadOnly hoverTip={messages.common.copy} clickTip={messages.common.copied}>
              {secret}
            </ClipboardCopy>
          </Alert>
        ) : (
          <Form
            id="rule-form"
            onSubmit={(event) => {
              event.preventDefault();
              save.mutate();
            }}
          >
            <Fields draft={draft} onChange={setDraft} isNew={!rule} />
            {save.error && <ErrorAlert error={save.error} />}
          </Form>
        )}
      </ModalBody>
      <ModalFooter>
        {secret ? (
          <Button onClick={onClose}>{messages.common.close}</Button>
        ) : (
          <>
            <Button
              type="submit"
              form="rule-form"
              isDisabled={!draft.name || !draft.address || save.isPending}
              isLoading={save.isPending}
            >
              {text.save}
            </Button>
            <Button variant="link" onClick={onClose}>
              {messages.common.cancel}
            </Button>
          </>
        )}
      </ModalFooter>
    </Modal>
  );
}

type FieldsProps = { draft: Draft; onChange: (draft: Draft) => void; isNew: boolean };

function Fields({ draft, onChange, isNew }: FieldsProps) {
  const { fields } = text;
  const set = (change: Partial<Draft>) => onChange({ ...draft, ...change });
  return (
    <>
      <FormGroup label={fields.name} fieldId="rule-name" isRequired>
        <TextInput
          id="rule-name"
          isRequired
          readOnlyVariant={isNew ? undefined : "default"}
          value={draft.name}
          onChange={(_event, name) => set({ name })}
        />
      </FormGroup>
      <FormGroup label={fields.target} role="radiogroup" isInline fieldId="rule-to">
        {(["webhook", "email"] as const).map((to) => (
          <Radio
            key={to}
            id={`rule-${to}`}
            name="rule-to"
            label={fields[to]}
            isChecked={draft.to === to}
            onChange={() => set({ to, address: "" })}
          />
        ))}
      </FormGroup>
      <FormGroup label={draft.to === "webhook" ? fields.url : fields.address} fieldId="rule-address" isRequired>
        <TextInput
          id="rule-address"
          isRequired
          type={draft.to === "webhook" ? "url" : "email"}
          value={draft.address}
          onChange={(_event, address) => set({ address })}
        />
      </FormGroup>
      <FormGroup label={fields.phases} role="group" isInline fieldId="rule-phases">
        {phases.map((phase) => (
          <Checkbox
            key={phase}
            id={`rule-${phase}`}
            label={phase}
            isChecked={draft.phases.includes(phase)}
            onChange={(_event, on) =>
              set({ phases: phases.filter((one) => (one === phase ? on : draft.phases.includes(one))) })
            }
          />
        ))}
      </FormGroup>
      <FormGroup label={fields.job} fieldId="rule-job">
        <TextInput id="rule-job" value={draft.job} onChange={(_event, job) => set({ job })} />
        <FormHelperText>
          <HelperText>
            <HelperTextItem>{fields.jobHint}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
    </>
  );
}
