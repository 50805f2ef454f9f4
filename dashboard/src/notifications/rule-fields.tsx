// The fields of a rule: what it is about, and where its notifications go.

import {
  Checkbox,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  NumberInput,
  Radio,
  TextInput,
} from "@patternfly/react-core";
import { useIdentity } from "../api/identity";
import { messages } from "../messages";
import { type Draft, whens } from "./rule-draft";

const { fields } = messages.notifications;
const phases = ["Pending", "Running", "Succeeded", "Failed"] as const;

type Props = { draft: Draft; onChange: (draft: Draft) => void; isNew: boolean };
type PartProps = { draft: Draft; set: (change: Partial<Draft>) => void };

export function RuleFields({ draft, onChange, isNew }: Props) {
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
      <FormGroup label={fields.when} role="radiogroup" isStack fieldId="rule-when">
        {whens.map((when) => (
          <Radio
            key={when}
            id={`rule-when-${when}`}
            name="rule-when"
            label={fields.whens[when]}
            isChecked={draft.when === when}
            onChange={() => set({ when })}
          />
        ))}
      </FormGroup>
      <Condition draft={draft} set={set} />
      {draft.when !== "quota" && (
        <FormGroup label={fields.job} fieldId="rule-job">
          <TextInput id="rule-job" value={draft.job} onChange={(_event, job) => set({ job })} />
          <Hint>{fields.jobHint}</Hint>
        </FormGroup>
      )}
      <Target draft={draft} set={set} />
    </>
  );
}

function Condition({ draft, set }: PartProps) {
  switch (draft.when) {
    case "change":
      return (
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
      );
    case "quota":
      return <Percent draft={draft} set={set} />;
    case "runs":
      return (
        <FormGroup label={fields.time} fieldId="rule-time" isRequired>
          <TextInput id="rule-time" isRequired value={draft.time} onChange={(_event, time) => set({ time })} />
          <Hint>{fields.timeHint}</Hint>
        </FormGroup>
      );
    case "stalled":
      return <Hint>{fields.stalledHint}</Hint>;
  }
}

function Percent({ draft, set }: PartProps) {
  const value = /^\d+$/.test(draft.percent) ? Number(draft.percent) : 0;
  const step = (by: number) => set({ percent: String(Math.min(100, Math.max(1, value + by))) });
  return (
    <FormGroup label={fields.percent} fieldId="rule-percent" isRequired>
      <NumberInput
        value={draft.percent === "" ? undefined : value}
        min={1}
        max={100}
        unit="%"
        widthChars={4}
        inputAriaLabel={fields.percent}
        inputProps={{ id: "rule-percent", required: true }}
        minusBtnAriaLabel={fields.less}
        plusBtnAriaLabel={fields.more}
        onMinus={() => step(-1)}
        onPlus={() => step(1)}
        onChange={(event) => set({ percent: event.currentTarget.value })}
      />
      <Hint>{fields.percentHint}</Hint>
    </FormGroup>
  );
}

/** E-mail is offered if the service can send it. A rule that has an address keeps it. */
function Target({ draft, set }: PartProps) {
  const { sendsEmail } = useIdentity().data ?? {};
  const isOffered = sendsEmail || draft.to === "email";
  return (
    <>
      <FormGroup label={fields.target} role="radiogroup" isInline fieldId="rule-to">
        {(["webhook", "email"] as const)
          .filter((to) => to === "webhook" || isOffered)
          .map((to) => (
            <Radio
              key={to}
              id={`rule-${to}`}
              name="rule-to"
              label={fields[to]}
              isChecked={draft.to === to}
              onChange={() => set({ to, address: "" })}
            />
          ))}
        {sendsEmail === false && <Hint>{fields.noEmail}</Hint>}
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
    </>
  );
}

function Hint({ children }: { children: string }) {
  return (
    <FormHelperText>
      <HelperText>
        <HelperTextItem>{children}</HelperTextItem>
      </HelperText>
    </FormHelperText>
  );
}
