// Chooses a namespace: from those known, or by its name, because a person may use namespaces that have no jobs yet.

import {
  Divider,
  HelperText,
  HelperTextItem,
  MenuContent,
  MenuSearch,
  MenuSearchInput,
  MenuToggle,
  SearchInput,
  Select,
  SelectList,
  SelectOption,
} from "@patternfly/react-core";
import { useCallback, useState } from "react";
import { messages } from "../messages";
import { isNamespace, useKnownNamespaces, useNamespace } from "./namespace";

const text = messages.common.namespace;

export function NamespaceSelector() {
  const [namespace, choose] = useNamespace();
  const known = useKnownNamespaces();
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  // Who types finds a namespace at once; otherwise, the keyboard would not reach the field.
  const focus = useCallback((field: HTMLInputElement | null) => field?.focus({ preventScroll: true }), []);
  const shown = known.filter((name) => name.includes(typed));
  const finish = (name: string) => {
    choose(name);
    setTyped("");
    setOpen(false);
  };
  return (
    <Select
      isOpen={open}
      onOpenChange={setOpen}
      onOpenChangeKeys={["Escape"]}
      shouldFocusToggleOnSelect
      selected={namespace}
      onSelect={(_event, value) => finish(String(value))}
      isScrollable
      popperProps={{ appendTo: "inline" }}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          isExpanded={open}
          onClick={() => setOpen(!open)}
          aria-label={`${text.label}: ${namespace || text.all}`}
          className="app-namespace"
        >
          <span className="app-wide">{text.label}: </span>
          {namespace || text.all}
        </MenuToggle>
      )}
    >
      <MenuSearch>
        <MenuSearchInput>
          <SearchInput
            ref={focus}
            value={typed}
            placeholder={text.placeholder}
            aria-label={text.placeholder}
            onChange={(_event, value) => setTyped(value.trim())}
            onClear={() => setTyped("")}
            onKeyDown={(event) => {
              if (event.key === "Enter" && isNamespace(typed)) finish(typed);
            }}
          />
        </MenuSearchInput>
        {typed && !isNamespace(typed) && (
          <HelperText>
            <HelperTextItem variant="error">{text.invalid}</HelperTextItem>
          </HelperText>
        )}
      </MenuSearch>
      <Divider />
      <MenuContent>
        <SelectList aria-label={text.label}>
          <SelectOption value="">{text.all}</SelectOption>
          {shown.map((name) => (
            <SelectOption key={name} value={name}>
              {name}
            </SelectOption>
          ))}
          {isNamespace(typed) && !known.includes(typed) && <SelectOption value={typed}>{text.use(typed)}</SelectOption>}
        </SelectList>
      </MenuContent>
    </Select>
  );
}
