// A bar at the top of the frame while the next page is loaded, if that takes a moment. The page before stays until then.

import { useEffect, useState } from "react";
import { useNavigation } from "react-router-dom";
import { messages } from "../messages";

/** Most pages are there sooner; a mark that flashes would only disturb. */
export const pendingDelay = 200;

export function Pending() {
  const isLoading = useNavigation().state === "loading";
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    if (!isLoading) return;
    const timer = setTimeout(() => setLong(true), pendingDelay);
    return () => {
      clearTimeout(timer);
      setLong(false);
    };
  }, [isLoading]);
  return (
    <>
      {isLong && <div className="app-pending" aria-hidden="true" />}
      <span role="status" className="pf-v6-screen-reader">
        {isLong && messages.common.loadingPage}
      </span>
    </>
  );
}
