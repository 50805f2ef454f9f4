// Saves the manifest that is being written as a template of its namespace.

import {
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
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask, client } from "../api/client";
import { ErrorAlert } from "../components/states";
import { useToast } from "../components/toasts";
import { messages } from "../messages";

const text = messages.templates.save;

type Props = {
  namespace: string;
  /** Returns the manifest with everything that was typed. */
  read: () => Promise<string>;
};

export function SaveTemplate({ isDisabled, ...props }: Props & { isDisabled: boolean }) {
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button variant="secondary" isDisabled={isDisabled} onClick={() => setOpen(true)}>
        {text.title}
      </Button>
      {open && <Dialog {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function Dialog({ namespace, read, onClose }: Props & { onClose: () => void }) {
  const queries = useQueryClient();
  const { show } = useToast();
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const save = useMutation({
    mutationFn: async () => {
      const body = { description, manifest: await read() };
      const params = { path: { namespace, name } };
      return ask(client.PUT("/api/v1/namespaces/{namespace}/templates/{name}", { params, body }));
    },
    onSuccess: ({ version }) => {
      show(text.saved(name, version));
      void queries.invalidateQueries({ queryKey: ["templates"] });
      onClose();
    },
  });
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-labelledby="template-title" elementToFocus="#template-name">
      <ModalHeader title={text.title} labelId="template-title" />
      <ModalBody>
        <Form
          id="template-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (name) save.mutate();
          }}
        >
          <FormGroup label={text.name} fieldId="template-name" isRequired>
            <TextInput id="template-name" value={name} isRequired onChange={(_event, value) => setName(value)} />
            <FormHelperText>
              <HelperText>
                <HelperTextItem>{text.hint}</HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
          <FormGroup label={text.description} fieldId="template-description">
            <TextInput
              id="template-description"
              value={description}
              onChange={(_event, value) => setDescription(value)}
            />
          </FormGroup>
          {save.error && <ErrorAlert error={save.error} />}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="template-form" isDisabled={!name || save.isPending} isLoading={save.isPending}>
          {text.title}
        </Button>
        <Button variant="link" onClick={onClose}>
          {messages.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
