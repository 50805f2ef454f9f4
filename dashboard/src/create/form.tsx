// The form: reads the manifest and writes single values into it.

import {
  Checkbox,
  ExpandableSection,
  Form,
  FormSelect,
  FormSelectOption,
  Grid,
  GridItem,
} from "@patternfly/react-core";
import { useState } from "react";
import type { Document } from "yaml";
import type { Schemas } from "../api/client";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";
import { useKnownNamespaces } from "../shell/namespace";
import { AdviceHint, adviceOf } from "./advice";
import builder from "./builder.json";
import { hasOpenQuote } from "./command";
import { FieldGroup, type FieldName, fieldId, TextField } from "./field";
import {
  asMap,
  commandChanges,
  envChanges,
  gpuChanges,
  gpuResource,
  isAbout,
  rankChanges,
  read,
  readCommand,
  readEnv,
  readMap,
  readResource,
  readText,
  readVolumes,
  requestChanges,
  resourceChanges,
  type Toleration,
  volumeChanges,
} from "./manifest";
import { EntryList } from "./pairs";
import type { Path, Shape } from "./shapes";

const text = messages.create;

type Changes = readonly [Path, unknown][];
type Props = {
  document: Document;
  shape: Shape;
  namespace: string;
  onNamespace: (namespace: string) => void;
  faults: FieldFault[];
  /** What former runs used. */
  advice: Schemas["ProgramAdvice"] | undefined;
  onChange: (changes: Changes) => void;
};

const namePath: Path = ["metadata", "name"];
const queuePath: Path = ["metadata", "labels", "kueue.x-k8s.io/queue-name"];
const launchPath: Path = ["metadata", "annotations", "training.opendatahub.io/launch"];

/** The paths of a shape's fields, for faults that belong to one; what no field shows is listed above the form. */
export function fieldPaths(shape: Shape): Partial<Record<FieldName, Path[]>> {
  const limit = (name: string): Path[] => [
    [...shape.resources, "limits", name],
    [...shape.resources, "requests", name],
  ];
  const inPods = (...rest: string[]): Path[] => shape.pods.map((pod) => [...pod, ...rest]);
  const one = (path: Path | undefined): Path[] => (path ? [path] : []);
  return {
    name: [namePath],
    image: shape.images,
    command: [shape.command, shape.args],
    workers: [shape.workers],
    gpus: limit(builder.gpu.default),
    cpu: limit("cpu"),
    memory: limit("memory"),
    runtime: one(shape.runtime),
    slots: one(shape.slots),
    env: shape.env,
    volumes: inPods("volumes"),
    nodes: inPods("nodeSelector"),
    tolerations: inPods("tolerations"),
    priority: inPods("priorityClassName"),
    queue: [queuePath],
    deadline: one(shape.deadline),
    retries: one(shape.retries),
    restartPolicy: one(shape.restartPolicy),
    launch: [launchPath],
  };
}

function number(value: string): number | string | undefined {
  if (value.trim() === "") return undefined;
  return /^-?\d+$/.test(value.trim()) ? Number(value) : value;
}

export function JobForm(given: Props) {
  const { document, shape, namespace, onNamespace, faults, advice } = given;
  const onChange = (changes: Changes) => given.onChange([...changes, ...rankChanges({ document, shape }, changes)]);
  const props = { ...given, onChange };
  const known = useKnownNamespaces();
  const paths = fieldPaths(shape);
  const of = (name: FieldName) => faults.filter(({ path }) => paths[name]?.some((field) => isAbout(path, field)));
  const simple = (name: FieldName, path: Path | undefined, isNumber = false) => ({
    name,
    faults: of(name),
    value: path ? readText(document, path) : "",
    onChange: (value: string) => path && onChange([[path, isNumber ? number(value) : value || undefined]]),
  });
  const gpu = gpuResource(document, shape);
  const ofWorkers = adviceOf(advice, "Worker");
  const hint = (resource: "cpu" | "memory") => (
    <AdviceHint
      advice={ofWorkers?.[resource]}
      onTake={(amount) => onChange(requestChanges(document, shape.resources, resource, amount))}
    />
  );
  return (
    <Form isWidthLimited aria-label={text.form} onSubmit={(event) => event.preventDefault()}>
      <Grid hasGutter md={6}>
        <GridItem>
          <TextField {...simple("name", namePath)} isRequired onChange={(value) => onChange([[namePath, value]])} />
        </GridItem>
        <GridItem>
          <TextField name="namespace" isRequired value={namespace} onChange={onNamespace} list={known} />
        </GridItem>
      </Grid>
      {shape.runtime && <TextField {...simple("runtime", shape.runtime)} isRequired />}
      <TextField
        {...simple("image", shape.images[0])}
        isRequired={!shape.runtime}
        placeholder="quay.io/team/image:1.0"
        onChange={(value) =>
          onChange(shape.images.filter((path) => document.hasIn(path.slice(0, -1))).map((path) => [path, value]))
        }
      />
      <CommandField {...props} faults={of("command")} />
      <Grid hasGutter md={6}>
        <GridItem>
          <TextField {...simple("workers", shape.workers, true)} type="number" min={1} max={100} isRequired />
        </GridItem>
        <GridItem>
          <TextField
            {...simple("gpus", undefined)}
            type="number"
            min={0}
            value={readResource(document, shape, gpu) || "0"}
            onChange={(value) => onChange(gpuChanges(document, shape, value))}
          />
        </GridItem>
        <GridItem>
          <TextField
            {...simple("cpu", undefined)}
            placeholder="4"
            value={readResource(document, shape, "cpu")}
            hint={hint("cpu")}
            onChange={(value) => onChange(resourceChanges(document, shape.resources, "cpu", value))}
          />
        </GridItem>
        <GridItem>
          <TextField
            {...simple("memory", undefined)}
            placeholder="16Gi"
            value={readResource(document, shape, "memory")}
            hint={hint("memory")}
            onChange={(value) => onChange(resourceChanges(document, shape.resources, "memory", value))}
          />
        </GridItem>
      </Grid>
      <Advanced {...props} faultsOf={of} simple={simple} />
    </Form>
  );
}

function CommandField({ document, shape, faults, onChange }: Props) {
  const command = readCommand({ document, shape });
  const env = readEnv({ document, shape });
  // A command whose quote is still open cannot be split into words, so the manifest does not have it yet.
  const [unfinished, setUnfinished] = useState<string>();
  const open = unfinished === undefined ? [] : [{ path: "", fault: text.openQuote }];
  return (
    <>
      <TextField
        name="command"
        faults={[...open, ...faults]}
        value={unfinished ?? command.text}
        placeholder="python /train.py --epochs 10"
        onChange={(value) => {
          setUnfinished(hasOpenQuote(value) ? value : undefined);
          if (!hasOpenQuote(value)) onChange(commandChanges({ document, shape }, { ...command, text: value }, env));
        }}
      />
      {shape.kind === "mpijob" && (
        <Checkbox
          id={fieldId("everyRank")}
          label={text.fields.everyRank.label}
          isChecked={command.everyRank}
          onChange={(_event, everyRank) =>
            onChange(commandChanges({ document, shape }, { ...command, everyRank }, env))
          }
        />
      )}
    </>
  );
}

type AdvancedProps = Props & {
  faultsOf: (name: FieldName) => FieldFault[];
  simple: (
    name: FieldName,
    path: Path | undefined,
    isNumber?: boolean,
  ) => { name: FieldName; faults: FieldFault[]; value: string; onChange: (value: string) => void };
};

const advancedFields: FieldName[] = [
  "slots",
  "env",
  "volumes",
  "nodes",
  "tolerations",
  "priority",
  "queue",
  "deadline",
  "retries",
  "restartPolicy",
  "launch",
];

function Advanced(props: AdvancedProps) {
  const { document, shape, onChange, faultsOf, simple } = props;
  const [open, setOpen] = useState(false);
  const hasFault = advancedFields.some((name) => faultsOf(name).length);
  return (
    <ExpandableSection
      toggleText={open || hasFault ? text.hideAdvanced : text.showAdvanced}
      isExpanded={open || hasFault}
      onToggle={(_event, expanded) => setOpen(expanded)}
      isIndented
    >
      <div className="app-form-part">
        <Grid hasGutter md={6}>
          {shape.slots && (
            <GridItem>
              <TextField {...simple("slots", shape.slots, true)} type="number" min={1} />
            </GridItem>
          )}
          {shape.launcherResources && <LauncherResources {...props} path={shape.launcherResources} />}
          <GridItem>
            <TextField {...simple("queue", queuePath)} />
          </GridItem>
          {shape.deadline && (
            <GridItem>
              <TextField {...simple("deadline", shape.deadline, true)} type="number" min={1} />
            </GridItem>
          )}
          {shape.retries && (
            <GridItem>
              <TextField {...simple("retries", shape.retries, true)} type="number" min={0} />
            </GridItem>
          )}
          {shape.restartPolicy && (
            <GridItem>
              <ChoiceField {...simple("restartPolicy", shape.restartPolicy)} choices={text.choices.restart} />
            </GridItem>
          )}
          {shape.kind === "mpijob" && (
            <GridItem>
              <ChoiceField {...simple("launch", launchPath)} choices={text.choices.launch} />
            </GridItem>
          )}
          {shape.pods.length > 0 && (
            <GridItem>
              <TextField
                {...simple("priority", shape.pods[0] && [...shape.pods[0], "priorityClassName"])}
                onChange={(value) => onChange(inPods(props, "priorityClassName", value || undefined))}
              />
            </GridItem>
          )}
        </Grid>
        <EntryList
          name="env"
          faults={faultsOf("env")}
          parts={[
            ["name", text.pairs.name],
            ["value", text.pairs.value],
          ]}
          entries={readEnv({ document, shape })}
          onChange={(entries) => onChange(envChanges({ document, shape }, entries))}
        />
        {shape.pods.length > 0 && <Placement {...props} />}
        <Checkbox
          id={fieldId("suspend")}
          label={text.fields.suspend.label}
          isChecked={read(document, shape.suspend) === true}
          onChange={(_event, suspend) => onChange([[shape.suspend, suspend || undefined]])}
        />
      </div>
    </ExpandableSection>
  );
}

function inPods({ document, shape }: Props, field: string, value: unknown): Changes {
  return shape.pods.filter((pod) => document.hasIn(pod)).map((pod) => [[...pod, field], value]);
}

function LauncherResources({ document, advice, onChange, path }: Props & { path: Path }) {
  const ofLauncher = adviceOf(advice, "Launcher");
  const field = (name: "launcherCpu" | "launcherMemory", resource: "cpu" | "memory") => (
    <GridItem>
      <TextField
        name={name}
        value={readText(document, [...path, "limits", resource])}
        hint={
          <AdviceHint
            advice={ofLauncher?.[resource]}
            onTake={(amount) => onChange(requestChanges(document, path, resource, amount))}
          />
        }
        onChange={(value) => onChange(resourceChanges(document, path, resource, value))}
      />
    </GridItem>
  );
  return (
    <>
      {field("launcherCpu", "cpu")}
      {field("launcherMemory", "memory")}
    </>
  );
}

/** Volumes, nodes and tolerations: of pods. */
function Placement(props: AdvancedProps) {
  const { document, shape, onChange, faultsOf } = props;
  const pod = shape.pods[0] ?? [];
  const tolerations = (read(document, [...pod, "tolerations"]) as Partial<Toleration>[] | undefined) ?? [];
  return (
    <>
      <EntryList
        name="volumes"
        faults={faultsOf("volumes")}
        parts={[
          ["name", text.pairs.claim],
          ["value", text.pairs.path],
        ]}
        entries={readVolumes({ document, shape })}
        onChange={(entries) => onChange(volumeChanges({ document, shape }, entries))}
      />
      <EntryList
        name="nodes"
        faults={faultsOf("nodes")}
        parts={[
          ["name", text.pairs.label],
          ["value", text.pairs.value],
        ]}
        entries={readMap(document, [...pod, "nodeSelector"])}
        onChange={(entries) => onChange(inPods(props, "nodeSelector", asMap(entries)))}
      />
      <EntryList
        name="tolerations"
        faults={faultsOf("tolerations")}
        parts={[
          ["key", text.pairs.key],
          ["value", text.pairs.value],
          ["effect", text.pairs.effect],
        ]}
        entries={tolerations.map(({ key = "", value = "", effect = "" }) => ({ key, value, effect }))}
        onChange={(entries) => onChange(inPods(props, "tolerations", tolerationsOf(entries)))}
      />
    </>
  );
}

function tolerationsOf(entries: readonly Toleration[]): unknown {
  if (!entries.length) return undefined;
  return entries.map(({ key, value, effect }) => ({
    key,
    operator: value ? "Equal" : "Exists",
    ...(value && { value }),
    ...(effect && { effect }),
  }));
}

type ChoiceProps = {
  name: FieldName;
  faults: FieldFault[];
  value: string;
  onChange: (value: string) => void;
  choices: Record<string, string>;
};

function ChoiceField({ name, faults, value, onChange, choices }: ChoiceProps) {
  const all = value && !(value in choices) ? { ...choices, [value]: value } : choices;
  return (
    <FieldGroup name={name} faults={faults}>
      <FormSelect
        id={fieldId(name)}
        value={value}
        onChange={(_event, next) => onChange(next)}
        validated={faults.length ? "error" : "default"}
      >
        <FormSelectOption value="" label={text.choices.default} />
        {Object.entries(all).map(([one, label]) => (
          <FormSelectOption key={one} value={one} label={label} />
        ))}
      </FormSelect>
    </FieldGroup>
  );
}
