// The frame of every page within another dashboard, which has masthead and navigation of its own: the pages' links, the
// namespace, and whether the page is live.

import { Flex, FlexItem, Nav, PageSection } from "@patternfly/react-core";
import { Outlet } from "react-router-dom";
import { messages } from "../messages";
import { LiveState } from "../shell/live-state";
import { NamespaceSelector } from "../shell/namespace-selector";
import { PlaceLinks } from "../shell/place-links";

export function Frame() {
  return (
    <>
      <PageSection type="subnav">
        <Nav variant="horizontal-subnav" aria-label={messages.common.application}>
          <PlaceLinks />
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
