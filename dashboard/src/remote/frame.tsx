// The frame of every page within another dashboard, which has masthead and navigation of its own: the pages' links, the
// namespace, and whether the page is live.

import { Flex, FlexItem, Nav, NavItem, NavList, PageSection } from "@patternfly/react-core";
import { Link, Outlet, useLocation } from "react-router-dom";
import { messages } from "../messages";
import { LiveState } from "../shell/live-state";
import { NamespaceSelector } from "../shell/namespace-selector";
import { places } from "../shell/places";

export function Frame() {
  const { pathname } = useLocation();
  return (
    <>
      <PageSection type="subnav">
        <Nav variant="horizontal-subnav" aria-label={messages.common.application}>
          <NavList>
            {places.map(({ to, label }) => (
              <NavItem key={to} isActive={pathname === to || pathname.startsWith(`${to}/`)}>
                <Link to={to}>{label}</Link>
              </NavItem>
            ))}
          </NavList>
        </Nav>
      </PageSection>
      <PageSection>
        <Flex justifyContent={{ default: "justifyContentSpaceBetween" }}>
          <FlexItem>
            <NamespaceSelector />
          </FlexItem>
          <FlexItem>
            <LiveState />
          </FlexItem>
        </Flex>
      </PageSection>
      <Outlet />
    </>
  );
}
