// Actions on the selected jobs. An action that the state of none of them permits is shown, but not available.

import { Divider, Dropdown, DropdownItem, DropdownList, MenuToggle } from "@patternfly/react-core";
import { useState } from "react";
import { useNavigate } from "react-router-dom";
import { messages } from "../messages";
import { type Action, comparable, compareAddress, permits } from "./actions";
import type { Select, Selection } from "./selection";
import { useActionStarter } from "./start-action";

const text = messages.jobs;

export function BulkActions({ selection, select }: { selection: Selection; select: Select }) {
  const navigate = useNavigate();
  const [open, setOpen] = useState(false);
  const [start, dialog] = useActionStarter(select);
  const rows = [...selection.values()];
  const item = (action: Action) => {
    const permitted = rows.filter((row) => permits(row, action));
    return (
      <DropdownItem
        key={action}
        isDanger={action === "delete"}
        isAriaDisabled={!permitted.length}
        onClick={() => start(action, permitted)}
      >
        {text.actions[action]}
        {permitted.length > 0 && ` (${permitted.length})`}
      </DropdownItem>
    );
  };
  return (
    <>
      <Dropdown
        shouldFocusFirstItemOnOpen
        isOpen={open}
        onOpenChange={setOpen}
        onSelect={() => setOpen(false)}
        popperProps={{ position: "right", appendTo: "inline" }}
        toggle={(toggle) => (
          <MenuToggle
            ref={toggle}
            isExpanded={open}
            onClick={() => setOpen(!open)}
            variant={rows.length ? "primary" : "default"}
          >
            {text.actions.toggle}
          </MenuToggle>
        )}
      >
        <DropdownList>
          {(["suspend", "resume", "cancel", "retry"] as const).map(item)}
          <DropdownItem
            isAriaDisabled={!comparable(rows)}
            description={comparable(rows) ? undefined : text.actions.compareHint}
            onClick={() => void navigate(compareAddress(rows))}
          >
            {text.actions.compare}
          </DropdownItem>
          <Divider component="li" />
          {item("delete")}
          <Divider component="li" />
          <DropdownItem isAriaDisabled={!rows.length} onClick={() => select(rows, false)}>
            {text.clearSelection}
          </DropdownItem>
        </DropdownList>
      </Dropdown>
      {dialog}
    </>
  );
}
