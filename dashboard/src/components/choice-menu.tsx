// A menu of things to choose any number of, and optionally a text to enter.

import {
  Badge,
  Divider,
  MenuSearch,
  MenuSearchInput,
  MenuToggle,
  SearchInput,
  Select,
  SelectList,
  SelectOption,
} from "@patternfly/react-core";
import { useState } from "react";

type Props = {
  label: string;
  options: [value: string, label: string][];
  chosen: readonly string[];
  onToggle: (value: string) => void;
  onOpen?: () => void;
  /** Whether it may have more options than a screen has room for. */
  isScrollable?: boolean;
  entry?: { label: string; onEnter: (text: string) => void };
};

export function ChoiceMenu({ label, options, chosen, onToggle, onOpen, isScrollable, entry }: Props) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  return (
    <Select
      role="menu"
      popperProps={{ appendTo: "inline" }}
      isScrollable={isScrollable}
      isOpen={open}
      onOpenChange={setOpen}
      selected={[...chosen]}
      onSelect={(_event, value) => onToggle(String(value))}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          isExpanded={open}
          onClick={() => {
            if (!open) onOpen?.();
            setOpen(!open);
          }}
          badge={chosen.length > 0 && options.length > 0 ? <Badge isRead>{chosen.length}</Badge> : undefined}
        >
          {label}
        </MenuToggle>
      )}
    >
      {entry && (
        <>
          <MenuSearch>
            <MenuSearchInput>
              <SearchInput
                aria-label={entry.label}
                placeholder={entry.label}
                value={typed}
                onChange={(_event, text) => setTyped(text)}
                onClear={() => setTyped("")}
                onSearch={(_event, text) => {
                  if (!text.trim()) return;
                  entry.onEnter(text.trim());
                  setTyped("");
                  setOpen(false);
                }}
              />
            </MenuSearchInput>
          </MenuSearch>
          <Divider />
        </>
      )}
      <SelectList aria-label={label}>
        {options.map(([value, text]) => (
          <SelectOption key={value} value={value} hasCheckbox isSelected={chosen.includes(value)}>
            {text}
          </SelectOption>
        ))}
      </SelectList>
    </Select>
  );
}
