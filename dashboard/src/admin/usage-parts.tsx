// What table and chart of the usage share.

import { FormSelect, FormSelectOption, ToolbarItem } from "@patternfly/react-core";
import { messages } from "../messages";

const text = messages.admin.usage;

type ChoiceProps<T extends string> = {
  label: string;
  choices: Record<T, string>;
  value: T;
  onChange: (value: T) => void;
};

export function Choice<T extends string>({ label, choices, value, onChange }: ChoiceProps<T>) {
  return (
    <ToolbarItem>
      <FormSelect aria-label={label} value={value} onChange={(_event, chosen) => onChange(chosen as T)}>
        {(Object.keys(choices) as T[]).map((one) => (
          <FormSelectOption key={one} value={one} label={choices[one]} />
        ))}
      </FormSelect>
    </ToolbarItem>
  );
}

export function unitOf(resource: string): string {
  return resource === "cpu" || resource === "memory" ? text.unit[resource] : text.gpuUnit;
}
