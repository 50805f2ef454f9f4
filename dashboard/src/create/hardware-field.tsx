// The picker of hardware profiles. Where none is offered, there is none; where they could not be read, a sentence says why.

import { FormHelperText, FormSelect, FormSelectOption, HelperText, HelperTextItem } from "@patternfly/react-core";
import { useState } from "react";
import type { Kind } from "../api/client";
import { messages } from "../messages";
import { About, aboutId, FieldGroup } from "./field";
import { kindOfFields } from "./fields";
import { fieldId, labelOf, useForm } from "./form-context";
import { amountsOf, chosenOf, idOf, missingOf, type Profile, takeProfile } from "./hardware";

const text = messages.create.hardware;
const at = "hardware";

export function HardwareField() {
  const { fields, change, hardware } = useForm();
  const { profiles, note } = hardware;
  const [picked, setPicked] = useState("");
  if (!profiles.length) return note ? <Note note={note} /> : null;
  const chosen = chosenOf(hardware, fields, picked);
  const about = [...(chosen ? aboutProfile(chosen, kindOfFields(fields)) : []), note ?? ""].filter(Boolean);
  const pick = (id: string) => {
    const next = profiles.find((one) => idOf(one) === id);
    setPicked(id);
    change(takeProfile(next, chosen));
  };
  return (
    <FieldGroup at={at} hint={<About at={at} lines={about} />}>
      <FormSelect
        id={fieldId(at)}
        value={chosen ? idOf(chosen) : ""}
        aria-describedby={about.length ? aboutId(at) : undefined}
        onChange={(_event, id) => pick(id)}
      >
        <FormSelectOption value="" label={text.none} />
        {profiles.map((profile) => (
          <FormSelectOption key={idOf(profile)} value={idOf(profile)} label={profile.title ?? idOf(profile)} />
        ))}
      </FormSelect>
    </FieldGroup>
  );
}

/** What a profile is for, and what of it the job does not get. */
function aboutProfile(profile: Profile, kind: Kind): string[] {
  const missing = missingOf(profile, kind).map(labelOf).join(", ");
  const notApplied = missing && text.notApplied(messages.common.kinds[kind], missing);
  return [profile.description ?? "", ...amountsOf(profile), notApplied];
}

function Note({ note }: { note: string }) {
  return (
    <FormHelperText>
      <HelperText>
        <HelperTextItem>
          <bdi>{note}</bdi>
        </HelperTextItem>
      </HelperText>
    </FormHelperText>
  );
}
