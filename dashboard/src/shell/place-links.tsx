// The links to the pages that every frame has.

import { NavItem, NavList } from "@patternfly/react-core";
import { Link, useLocation } from "react-router-dom";
import { messages } from "../messages";

const { nav } = messages.common;

const places = [
  { to: "/jobs", label: nav.jobs },
  { to: "/create", label: nav.create },
  { to: "/templates", label: nav.templates },
  { to: "/notifications", label: nav.notifications },
  { to: "/admin", label: nav.admin },
];

export function PlaceLinks() {
  const { pathname } = useLocation();
  return (
    <NavList>
      {places.map(({ to, label }) => (
        <NavItem key={to} isActive={pathname === to || pathname.startsWith(`${to}/`)}>
          <Link to={to}>{label}</Link>
        </NavItem>
      ))}
    </NavList>
  );
}
