// Creates a rule or changes one. The key that signs its webhooks is shown once.

import { Alert, Button, ClipboardCopy, Form, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask, client } from "../api/client";
import { ErrorAlert } from "../components/states";
import { useToast } from "../components/toasts";
import { messages } from "../messages";
import { type Draft, draftOf, isComplete, type Rule, requestOf } from "./rule-draft";
import { RuleFields } from "./rule-fields";

const text = messages.notifications;

export function RuleForm({ namespace, rule, onClose }: { namespace: string; rule?: Rule; onClose: () => void }) {
  const queries = useQueryClient();
  const { show } = useToast();
  const [draft, setDraft] = useState<Draft>(() => draftOf(rule));
  const save = useMutation({
    mutationFn: () =>
      ask(
        client.PUT("/api/v1/namespaces/{namespace}/notifications/{name}", {
          params: { path: { namespace, name: draft.name } },
          body: requestOf(draft, rule),
        }),
      ),
    onSuccess: (rule) => {
      void queries.invalidateQueries({ queryKey: ["rules"] });
      void queries.invalidateQueries({ queryKey: ["alerts"] });
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
            <RuleFields draft={draft} onChange={setDraft} isNew={!rule} />
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
              isDisabled={!isComplete(draft) || save.isPending}
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
