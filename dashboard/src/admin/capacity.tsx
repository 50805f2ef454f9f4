// What would fit into the cluster, and when: the question is in the address, and the service answers it.

import { Alert, Button, Form, FormGroup, Gallery, TextInput, Title } from "@patternfly/react-core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { useSearchParams } from "react-router-dom";
import { ask, client, type Schemas } from "../api/client";
import { DataTable } from "../components/data-table";
import { Facts } from "../components/facts";
import { ErrorAlert, LoadingLines } from "../components/states";
import { amountsText, FindingAlert } from "../create/totals";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";

const text = messages.admin.capacity;
type Answer = Schemas["CheckCapacityResponse"];
type FieldName = keyof typeof text.fields;
const fieldNames = Object.keys(text.fields) as FieldName[];
/** The answer is asked for again this often, in milliseconds: others' jobs start and end. */
const refresh = 10_000;

export function Capacity() {
  const [namespace] = useNamespace();
  const [address, setAddress] = useSearchParams();
  const question = questionOf(address, namespace);
  const [typed, setTyped] = useTyped(address);
  const capacity = useQuery({
    queryKey: ["capacity", question],
    enabled: question !== undefined,
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/capacity", { params: { query: question ?? { workers: 0 } }, signal })),
    placeholderData: keepPreviousData,
    refetchInterval: refresh,
    retry: false,
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setAddress((before) => {
      const after = new URLSearchParams(before);
      for (const name of fieldNames) {
        const value = typed[name].trim();
        if (value) after.set(name, value);
        else after.delete(name);
      }
      return after;
    });
  };
  const { data, error } = capacity;
  return (
    <div className="app-form-part">
      <p className="app-cause">{text.introduction}</p>
      <Form onSubmit={submit} className="app-form-part">
        <Gallery hasGutter minWidths={{ default: "10rem" }}>
          {fieldNames.map((name) => (
            <FormGroup
              key={name}
              label={text.fields[name]}
              fieldId={`capacity-${name}`}
              isRequired={name === "workers"}
            >
              <TextInput
                id={`capacity-${name}`}
                name={name}
                value={typed[name]}
                onChange={(_event, value) => setTyped({ ...typed, [name]: value })}
                placeholder={text.examples[name]}
                isRequired={name === "workers"}
                isDisabled={name === "queue" && !namespace}
                inputMode={name === "workers" || name === "gpus" ? "numeric" : undefined}
                pattern={name === "workers" || name === "gpus" ? "[0-9]*" : undefined}
                autoComplete="off"
                spellCheck={false}
              />
            </FormGroup>
          ))}
        </Gallery>
        <p className="app-cause">{namespace ? <bdi>{text.namespaceHint(namespace)}</bdi> : text.queueHint}</p>
        <div>
          <Button type="submit">{text.check}</Button>
        </div>
      </Form>
      {question === undefined ? null : error ? (
        <ErrorAlert error={error} onRetry={() => void capacity.refetch()} />
      ) : data ? (
        <AnswerPart answer={data} />
      ) : (
        <LoadingLines />
      )}
    </div>
  );
}

type Typed = Record<FieldName, string>;

/** What the person types; it follows the address, which changes without the form by the browser's buttons. */
function useTyped(address: URLSearchParams): [Typed, (typed: Typed) => void] {
  const inAddress = fieldNames.map((name) => [name, address.get(name) ?? ""]);
  const known = JSON.stringify(inAddress);
  const [typed, setTyped] = useState<Typed>(() => Object.fromEntries(inAddress));
  useEffect(() => setTyped(Object.fromEntries(JSON.parse(known)) as Typed), [known]);
  return [typed, setTyped];
}

/** The question that the address holds; undefined without a number of Workers. */
export function questionOf(address: URLSearchParams, namespace: string) {
  const value = (name: FieldName) => address.get(name)?.trim() || undefined;
  const [workers, gpus] = [value("workers"), value("gpus")];
  if (workers === undefined) return undefined;
  return {
    workers: Number(workers),
    ...(gpus && { gpus: Number(gpus) }),
    ...(value("cpu") && { cpu: value("cpu") }),
    ...(value("memory") && { memory: value("memory") }),
    ...(namespace && { namespace }),
    ...(namespace && value("queue") && { queue: value("queue") }),
  };
}

const looks = { Now: "success", Later: "info", Never: "warning", Refused: "danger", Unknown: "info" } as const;

function AnswerPart({ answer }: { answer: Answer }) {
  const { start = "Unknown", wait, findings, queue } = answer;
  const facts: [string, ReactNode][] = [
    [text.requested, answer.requested && amountsText(answer.requested)],
    [text.free, answer.free && amountsText(answer.free)],
    [text.now, answer.workersNow],
    [text.atMost, answer.workersAtMost],
    [text.inQueue(queue?.name ?? ""), answer.workersInQueue],
    [text.cost, answer.cost?.message && <bdi>{answer.cost.message}</bdi>],
  ];
  return (
    <section aria-label={text.answer} className="app-form-part">
      <div role="status">
        <Alert isInline component="h2" variant={looks[start]} title={text.starts[start]}>
          {wait?.message && text.wait(wait.message)}
        </Alert>
      </div>
      {findings.map((finding) => (
        <FindingAlert key={`${finding.reason} ${finding.message}`} finding={finding} />
      ))}
      <Facts rows={facts.filter(([, value]) => value !== undefined)} termWidth="16rem" />
      <Nodes answer={answer} />
    </section>
  );
}

function Nodes({ answer: { nodes, nodesWithRoom } }: { answer: Answer }) {
  if (nodesWithRoom === undefined) return null;
  return (
    <>
      <Title headingLevel="h2" size="lg">
        {text.nodes}
      </Title>
      {nodes.length ? (
        <DataTable
          label={text.nodes}
          rows={nodes}
          rowKey={({ name = "" }) => name}
          columns={[
            { label: text.node, cell: ({ name }) => <bdi>{name}</bdi> },
            { label: text.workers, cell: ({ workers }) => workers },
          ]}
        />
      ) : (
        <p>{text.noNodes}</p>
      )}
      {nodes.length < nodesWithRoom && <p className="app-cause">{text.moreNodes(nodes.length, nodesWithRoom)}</p>}
    </>
  );
}
