// A router for a part of the host's addresses: pages see paths below `place`, and every navigation is the host's own, so
// that there is one history.
//
// React Router permits no router within another, and resolves relative links against all routes around them. Both are
// contexts, which end here.

import { type ReactNode, useMemo } from "react";
import {
  createPath,
  UNSAFE_DataRouterContext as DataRouterContext,
  UNSAFE_DataRouterStateContext as DataRouterStateContext,
  UNSAFE_LocationContext as LocationContext,
  type Navigator,
  UNSAFE_RouteContext as RouteContext,
  Router,
  type To,
  useHref,
  useLocation,
  useNavigate,
  useNavigationType,
} from "react-router-dom";

const noRoute = { outlet: null, matches: [], isDataRoute: false };

export function HostedRouter({ place, children }: { place: string; children: ReactNode }) {
  const location = useLocation();
  const navigationType = useNavigationType();
  const navigate = useNavigate();
  const hostRoot = useHref("/").replace(/\/$/, "");
  const navigator = useMemo<Navigator>(
    () => ({
      createHref: (to) => hostRoot + pathOf(to),
      go: (steps) => void navigate(steps),
      push: (to, state, options) => void navigate(to, { ...options, state, replace: false }),
      replace: (to, state, options) => void navigate(to, { ...options, state, replace: true }),
    }),
    [hostRoot, navigate],
  );
  return (
    <DataRouterContext.Provider value={null}>
      <DataRouterStateContext.Provider value={null}>
        <RouteContext.Provider value={noRoute}>
          {/* As outside of all routers; its type leaves that out. */}
          <LocationContext.Provider value={null as never}>
            <Router basename={place} location={location} navigationType={navigationType} navigator={navigator}>
              {children}
            </Router>
          </LocationContext.Provider>
        </RouteContext.Provider>
      </DataRouterStateContext.Provider>
    </DataRouterContext.Provider>
  );
}

function pathOf(to: To): string {
  return typeof to === "string" ? to : createPath(to);
}
