// Who is signed in.

import { Divider, Dropdown, DropdownItem, DropdownList, MenuToggle } from "@patternfly/react-core";
import { useState } from "react";
import { useIdentity } from "../api/identity";
import { hasSession, signOut } from "../api/session";
import { messages } from "../messages";

const text = messages.common;

export function UserMenu() {
  const [open, setOpen] = useState(false);
  const name = useIdentity().data?.user;
  return (
    <Dropdown
      shouldFocusFirstItemOnOpen
      isOpen={open}
      onOpenChange={setOpen}
      popperProps={{ position: "right", appendTo: "inline" }}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          variant="plainText"
          isExpanded={open}
          onClick={() => setOpen(!open)}
          aria-label={text.user.menu(name ?? text.user.unknown)}
        >
          <span className="app-user">{name ?? text.user.unknown}</span>
        </MenuToggle>
      )}
    >
      <DropdownList>
        <DropdownItem to="/docs" target="_blank" rel="noreferrer">
          {text.user.api}
        </DropdownItem>
        <DropdownItem to={text.feedbackAddress} target="_blank" rel="noreferrer" isExternalLink>
          {text.feedback}
        </DropdownItem>
        {hasSession() && (
          <>
            <Divider component="li" />
            <DropdownItem onClick={() => void signOut()}>{text.user.signOut}</DropdownItem>
          </>
        )}
      </DropdownList>
    </Dropdown>
  );
}
