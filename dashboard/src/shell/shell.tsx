// The frame of every page: masthead, navigation, and the page itself.

import {
  Masthead,
  MastheadBrand,
  MastheadContent,
  MastheadLogo,
  MastheadMain,
  MastheadToggle,
  Nav,
  Page,
  PageSidebar,
  PageSidebarBody,
  PageToggleButton,
  SkipToContent,
  Toolbar,
  ToolbarContent,
  ToolbarGroup,
  ToolbarItem,
} from "@patternfly/react-core";
import { Link, type LinkProps, Outlet, useMatches } from "react-router-dom";
import { ErrorBoundary } from "../components/error-boundary";
import { messages } from "../messages";
import { LiveState } from "./live-state";
import { mainId } from "./main-element";
import { NamespaceSelector } from "./namespace-selector";
import { Pending } from "./pending";
import { PlaceLinks } from "./place-links";
import { useScrollPlace } from "./scroll-place";
import { ThemeMenu } from "./theme-menu";
import { Tour } from "./tour";
import { useTour } from "./use-tour";
import { UserMenu } from "./user-menu";

const text = messages.common;

export function Shell() {
  const skip = (
    <SkipToContent
      href={`#${mainId}`}
      onClick={(event) => {
        event.preventDefault();
        document.getElementById(mainId)?.focus();
      }}
    >
      {text.skipToContent}
    </SkipToContent>
  );
  const page = useMatches().at(-1)?.id;
  const tour = useTour();
  useScrollPlace();
  return (
    <Page
      isManagedSidebar
      masthead={<Top onTour={tour.start} />}
      sidebar={<Side />}
      skipToContent={skip}
      mainContainerId={mainId}
      isContentFilled
    >
      <Pending />
      <ErrorBoundary key={page}>
        <Outlet />
      </ErrorBoundary>
      {tour.isOpen && <Tour onClose={tour.close} />}
    </Page>
  );
}

function Top({ onTour }: { onTour: () => void }) {
  return (
    <Masthead>
      <MastheadMain>
        <MastheadToggle>
          <PageToggleButton isHamburgerButton aria-label={text.globalNavigation} />
        </MastheadToggle>
        <MastheadBrand>
          <MastheadLogo component={HomeLink} className="app-logo">
            <img src="/icon.svg" alt="" width="28" height="28" className="app-logo" />
            <span className="app-brand">
              {text.product} <span className="app-brand-part">{text.application}</span>
            </span>
          </MastheadLogo>
        </MastheadBrand>
      </MastheadMain>
      <MastheadContent>
        <Toolbar isStatic isFullHeight>
          <ToolbarContent>
            <ToolbarItem>
              <NamespaceSelector />
            </ToolbarItem>
            <ToolbarGroup align={{ default: "alignEnd" }} variant="action-group-plain">
              <ToolbarItem>
                <LiveState />
              </ToolbarItem>
              <ToolbarItem>
                <ThemeMenu />
              </ToolbarItem>
              <ToolbarItem>
                <UserMenu onTour={onTour} />
              </ToolbarItem>
            </ToolbarGroup>
          </ToolbarContent>
        </Toolbar>
      </MastheadContent>
    </Masthead>
  );
}

function HomeLink(props: Omit<LinkProps, "to">) {
  return <Link {...props} to="/jobs" aria-label={`${text.product} ${text.application}`} />;
}

function Side() {
  return (
    <PageSidebar>
      <PageSidebarBody>
        <Nav aria-label={text.navigation}>
          <PlaceLinks />
        </Nav>
      </PageSidebarBody>
    </PageSidebar>
  );
}
