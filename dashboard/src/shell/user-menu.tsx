// Who is signed in, and where to find help.

import { Divider, Dropdown, DropdownItem, DropdownList, MenuToggle } from "@patternfly/react-core";
import { useState } from "react";
import { reference } from "../api/docs";
import { useIdentity } from "../api/identity";
import { hasSession, signOut } from "../api/session";
import { useToast } from "../components/toasts";
import { messages } from "../messages";

const text = messages.common;

export const userMenuId = "user-menu";

export function UserMenu({ onTour }: { onTour: () => void }) {
  const [open, setOpen] = useState(false);
  const name = useIdentity().data?.user;
  const { fail } = useToast();
  const leave = () => {
    setOpen(false);
    signOut().catch((error: unknown) => fail(text.user.notSignedOut, error));
  };
  return (
    <Dropdown
      shouldFocusFirstItemOnOpen
      isOpen={open}
      onOpenChange={setOpen}
      popperProps={{ position: "right", appendTo: "inline" }}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          id={userMenuId}
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
        <DropdownItem
          onClick={() => {
            setOpen(false);
            onTour();
          }}
        >
          {messages.tour.start}
        </DropdownItem>
        <DropdownItem to={reference} target="_blank" rel="noreferrer">
          {text.user.api}
        </DropdownItem>
        <DropdownItem to={text.feedbackAddress} target="_blank" rel="noreferrer" isExternalLink>
          {text.feedback}
        </DropdownItem>
        {hasSession() && (
          <>
            <Divider component="li" />
            <DropdownItem onClick={leave}>{text.user.signOut}</DropdownItem>
          </>
        )}
      </DropdownList>
    </Dropdown>
  );
}
