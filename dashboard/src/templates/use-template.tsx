// A job from a template: its name and parameters here, everything else in the form, which the service has filled in.

import {
  Button,
  Form,
  FormGroup,
  FormHelperText,
  FormSelect,
  FormSelectOption,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from "@patternfly/react-core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useNavigate } from "react-router-dom";
import { ask, client, type Schemas } from "../api/client";
import { ErrorAlert } from "../components/states";
import { keepManifest } from "../create/draft";
import { messages } from "../messages";

const text = messages.templates;
type Template = Schemas["Template"];
type Parameter = Schemas["TemplateParameter"];

export function UseTemplate({
  template,
  namespace,
  onCancel,
}: {
  template: Template;
  namespace: string;
  onCancel: () => void;
}) {
  const navigate = useNavigate();
  const [jobName, setJobName] = useState("");
  const [values, setValues] = useState<Record<string, string>>({});
  const fill = useMutation({
    mutationFn: () => {
      const { name = "" } = template;
      const parameters = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
      const body = {
        dryRun: true,
        skipChecks: true,
        template: { name, namespace: template.namespace, jobName, parameters },
      };
      return ask(client.POST("/api/v1/namespaces/{namespace}/jobs", { params: { path: { namespace } }, body }));
    },
    onSuccess: ({ manifest = "" }) => {
      const origin = `file:template:${template.name}:${Date.now()}`;
      keepManifest(origin, manifest);
      void navigate(`/create/job?${new URLSearchParams({ namespace, file: origin })}`);
    },
  });
  return (
    <Modal isOpen variant="small" onClose={onCancel} aria-labelledby="use-title" elementToFocus="#use-name">
      <ModalHeader title={text.useTitle(template.name ?? "")} description={template.description} labelId="use-title" />
      <ModalBody>
        <Form
          id="use-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (jobName) fill.mutate();
          }}
        >
          <FormGroup label={text.jobName} fieldId="use-name" isRequired>
            <TextInput id="use-name" value={jobName} isRequired onChange={(_event, value) => setJobName(value)} />
          </FormGroup>
          {template.parameters.map((parameter) => (
            <ParameterField
              key={parameter.name}
              parameter={parameter}
              value={values[parameter.name] ?? ""}
              onChange={(value) => setValues({ ...values, [parameter.name]: value })}
            />
          ))}
          {fill.error && <ErrorAlert error={fill.error} />}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="use-form" isDisabled={!jobName || fill.isPending} isLoading={fill.isPending}>
          {text.next}
        </Button>
        <Button variant="link" onClick={onCancel}>
          {messages.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

type FieldProps = { parameter: Parameter; value: string; onChange: (value: string) => void };

function ParameterField({ parameter, value, onChange }: FieldProps) {
  const id = `parameter-${parameter.name}`;
  const allowed = parameter.allowed?.length
    ? parameter.allowed
    : parameter.type === "boolean"
      ? ["true", "false"]
      : undefined;
  const isRequired = parameter.default === undefined;
  return (
    <FormGroup label={parameter.name} fieldId={id} isRequired={isRequired}>
      {allowed ? (
        <FormSelect id={id} value={value} onChange={(_event, next) => onChange(next)}>
          <FormSelectOption value="" label={parameter.default ?? ""} />
          {allowed.map((one) => (
            <FormSelectOption key={one} value={one} label={one} />
          ))}
        </FormSelect>
      ) : (
        <TextInput
          id={id}
          value={value}
          placeholder={parameter.default}
          isRequired={isRequired}
          onChange={(_event, next) => onChange(next)}
        />
      )}
      {parameter.description && (
        <FormHelperText>
          <HelperText>
            <HelperTextItem>
              <bdi>{parameter.description}</bdi>
            </HelperTextItem>
          </HelperText>
        </FormHelperText>
      )}
    </FormGroup>
  );
}
