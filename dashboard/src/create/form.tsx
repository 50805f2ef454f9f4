// The form: every field of a job, in sections. It holds no value and no rule of its own.

import {
  Button,
  Checkbox,
  ExpandableSection,
  Form,
  FormHelperText,
  FormSection,
  Grid,
  GridItem,
  HelperText,
  HelperTextItem,
} from "@patternfly/react-core";
import { type ReactNode, useState } from "react";
import { freeGpus } from "../components/free-gpus";
import { bytes, quantityText } from "../format/quantity";
import { messages } from "../messages";
import { AdviceHint, adviceOf, takeAdvice } from "./advice";
import { CommandField } from "./command-field";
import { type Control, controlsOf, ownScheduling, type Section } from "./controls";
import { CheckField, ChoiceField, NumberField, TextBox, TextField, YamlField } from "./field";
import { isObject, kindOfFields, setAt, textAt, type Update } from "./fields";
import { fieldId, labelOf, useField, useForm } from "./form-context";
import { HardwareField } from "./hardware-field";
import { leadTo } from "./lead";
import { AmountList, TextList, TolerationList, VariableList, VolumeList } from "./lists";
import { meantMemory } from "./memory";
import { OfferLists } from "./offer-lists";

const text = messages.create;

export function JobForm() {
  const { fields, offers } = useForm();
  const kind = kindOfFields(fields);
  return (
    <Form aria-label={text.form} onSubmit={(event) => event.preventDefault()}>
      {(["what", "where", "size", "data"] as const).map((section) => (
        <FormSection key={section} title={text.sections[section]} titleElement="h2">
          {section === "size" && <HardwareField />}
          <Fields controls={controlsOf(kind, section)} />
        </FormSection>
      ))}
      <Foldable name="more" sections={["more", "failures", "scheduling"]} />
      <Foldable name="worker" sections={["worker"]} />
      <Foldable name="launcher" sections={["launcher"]} />
      <OfferLists offers={offers} />
    </Form>
  );
}

/** Sections that few people need. One with a fault is open. */
function Foldable({ name, sections }: { name: "more" | "worker" | "launcher"; sections: Section[] }) {
  const { fields, faults, blocked } = useForm();
  const [open, setOpen] = useState(false);
  const [wasOpen, setWasOpen] = useState(false);
  const groups = sections
    .map((section) => ({ section, controls: controlsOf(kindOfFields(fields), section) }))
    .filter(({ controls }) => controls.length);
  const all = groups.flatMap(({ controls }) => controls.map(({ at }) => at));
  const hasFault = [...faults.keys(), ...blocked].some((path) =>
    all.some((at) => path === at || path.startsWith(`${at}.`)),
  );
  const isOpen = open || hasFault;
  if (!groups.length) return null;
  return (
    <ExpandableSection
      toggleText={name === "more" ? (isOpen ? text.hideAdvanced : text.showAdvanced) : text.sections[name]}
      isExpanded={isOpen}
      onToggle={(_event, expanded) => {
        setOpen(expanded);
        setWasOpen(true);
      }}
      isIndented
    >
      {(isOpen || wasOpen) &&
        groups.map(({ section, controls }) => (
          <FormSection
            key={section}
            title={section === name ? undefined : text.sections[section]}
            titleElement="h3"
            className="app-form-part"
          >
            <Fields controls={controls} />
          </FormSection>
        ))}
    </ExpandableSection>
  );
}

/** Controls, the short ones side by side. */
function Fields({ controls }: { controls: readonly Control[] }) {
  return (
    <Grid hasGutter md={6}>
      {controls.map((control) => (
        <GridItem key={control.at} md={isShort(control) ? 6 : 12}>
          <Field control={control} />
        </GridItem>
      ))}
    </Grid>
  );
}

function isShort(control: Control): boolean {
  return (control.as === "text" && !control.isWide) || ["number", "choice", "namespace"].includes(control.as);
}

function Field({ control }: { control: Control }): ReactNode {
  const { at } = control;
  switch (control.as) {
    case "text":
      return <TextField {...control} hint={["cpu", "memory"].includes(at) && <Hint at={at} />} />;
    case "number":
      return at === "gpus" ? <GpusField {...control} /> : <NumberField {...control} />;
    case "choice":
      return <ChoiceField at={at} choices={control.choices} />;
    case "check":
      return <CheckField at={at} isNot={control.isNot} />;
    case "namespace":
      return <NamespaceField at={at} />;
    case "command":
      return <CommandField />;
    case "yaml":
      return <YamlField at={at} />;
    case "texts":
      return <TextList at={at} />;
    case "amounts":
      return <AmountList at={at} hint={<Hint at={at} />} />;
    case "variables":
      return <VariableList at={at} />;
    case "volumes":
      return <VolumeList at={at} />;
    case "tolerations":
      return <TolerationList at={at} />;
    case "own":
      return <OwnScheduling role={at.startsWith("worker.") ? "worker" : "launcher"} at={at} />;
  }
}

/** With the GPUs that are free, in the chosen queue too. */
function GpusField(control: { at: string; least?: number }) {
  const { fields, gpus } = useForm();
  return <NumberField {...control} about={freeGpus(gpus, textAt(fields, "queue"))} />;
}

function NamespaceField({ at }: { at: string }) {
  const { namespace, onNamespace, namespaces, faults } = useForm();
  const { names = [], isPartial } = namespaces;
  const note = isPartial ? text.namespaces.partial : namespaces.names?.length === 0 && text.namespaces.none;
  return (
    <TextBox
      at={at}
      isRequired
      value={namespace}
      onChange={onNamespace}
      list={names}
      about={note ? [note] : []}
      faults={faults.get(at) ?? []}
    />
  );
}

/** Pods of a role are placed as the job's others unless they have a scheduling of their own, which may be empty. */
function OwnScheduling({ at, role }: { at: string; role: "worker" | "launcher" }) {
  const { value, set } = useField(at);
  const isOwn = isObject(value);
  return (
    <div className="app-form-part">
      <Checkbox
        id={fieldId(at)}
        label={labelOf(at)}
        isChecked={isOwn}
        onChange={(_event, checked) => set(checked ? {} : undefined)}
      />
      {isOwn && <Fields controls={ownScheduling[role]} />}
    </div>
  );
}

/** Below the fields that say what to request: the unit that may be missing, and what former runs used. */
function Hint({ at }: { at: string }) {
  const { fields, advice, change } = useForm();
  const memory = at === "memory" ? at : `${at}.memory`;
  const role = at.startsWith("launcher.") ? "Launcher" : "Worker";
  const resources = (["cpu", "memory"] as const).filter((one) => at === one || at === "launcher.limits");
  const ofRole = adviceOf(advice, role);
  // The button that was pressed is gone: the focus goes to its field.
  const take = (update: Update) => {
    change(update);
    leadTo([at]);
  };
  return (
    <>
      {at !== "cpu" && <MeantHint typed={textAt(fields, memory)} onTake={(amount) => take(setAt(memory, amount))} />}
      {resources.map((resource) => (
        <AdviceHint
          key={resource}
          advice={ofRole?.[resource]}
          onTake={(amount) => take(takeAdvice(role, resource, amount))}
        />
      ))}
    </>
  );
}

/** Asks what an amount of memory means that has no unit. */
function MeantHint({ typed, onTake }: { typed: string; onTake: (amount: string) => void }) {
  const meant = meantMemory(typed);
  if (!meant.length) return null;
  return (
    <FormHelperText>
      <HelperText isLiveRegion>
        {meant.map((amount) => (
          <HelperTextItem key={amount}>
            {text.meant(quantityText(amount, bytes))}{" "}
            <Button variant="link" isInline onClick={() => onTake(amount)}>
              {text.advice.take(amount)}
            </Button>
          </HelperTextItem>
        ))}
      </HelperText>
    </FormHelperText>
  );
}
