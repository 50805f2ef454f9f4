// When the tour is shown: at the first visit of the list of jobs, and when a person asks for it. A link to anything else, such
// as a job or a filtered list, opens without it.

import { useCallback, useEffect, useRef, useState } from "react";
import { useLocation, useNavigate } from "react-router-dom";
import { useIdentity } from "../api/identity";
import { recall, remember } from "../browser/storage";
import { pageTitle } from "./tour";
import { userMenuId } from "./user-menu";

const storageKey = "training.tour";
const seen = "seen";
const place = "/jobs";

export type TourState = {
  isOpen: boolean;
  start: () => void;
  close: (movesFocus: boolean) => void;
};

export function useTour(): TourState {
  const { pathname, search } = useLocation();
  const navigate = useNavigate();
  const isSignedIn = useIdentity().isSuccess;
  const [isFirst, setFirst] = useState(() => isFirstVisit(pathname, search));
  // Where the focus goes when the tour is closed; the tour is open while there is one.
  const [returnTo, setReturnTo] = useState<string>();
  const isOpen = returnTo !== undefined && pathname === place;

  useEffect(() => {
    if (!isFirst || !isSignedIn || pathname !== place) return;
    setFirst(false);
    if (rememberTour()) setReturnTo(pageTitle);
  }, [isFirst, isSignedIn, pathname]);

  const start = useCallback(() => {
    rememberTour();
    setFirst(false);
    setReturnTo(`#${userMenuId}`);
    if (pathname !== place) void navigate(place);
  }, [pathname, navigate]);

  const close = useCallback(
    (movesFocus: boolean) => {
      setReturnTo(undefined);
      // The tour puts the focus back where it was when it is removed, which may be an item of a closed menu.
      if (movesFocus) setTimeout(() => document.querySelector<HTMLElement>(returnTo ?? pageTitle)?.focus());
    },
    [returnTo],
  );

  useEndOnLeaving(isOpen, () => setReturnTo(undefined));
  return { isOpen, start, close };
}

/** Whether a person opens the list of jobs, unfiltered, for the first time in this browser. */
export function isFirstVisit(pathname: string, search: string): boolean {
  return (pathname === "/" || pathname === place) && !search && recall(storageKey) === null;
}

/** Returns whether it is remembered: a browser that forgets it would show the tour again and again. */
function rememberTour(): boolean {
  remember(storageKey, seen);
  return recall(storageKey) === seen;
}

/** A tour that was open ends when the person goes to another page. */
function useEndOnLeaving(isOpen: boolean, end: () => void): void {
  const wasOpen = useRef(false);
  useEffect(() => {
    if (wasOpen.current && !isOpen) end();
    wasOpen.current = isOpen;
  });
}
