// The log in full screen: the page's main element fills the screen, and what is not the log is left out. Menus of the log are
// drawn within that element, so that they are seen, too. Escape leads back, as everywhere in a browser.

import { useEffect, useState } from "react";
import { mainElement } from "../../shell/main-element";

const className = "app-full";

/** Whether the log fills the screen, and what changes that; undefined where the browser does not permit it. */
export function useFullScreen(): [boolean, (() => void) | undefined] {
  const [isFull, setFull] = useState(false);
  useEffect(() => {
    const main = mainElement();
    const look = () => {
      const full = document.fullscreenElement === main;
      main.classList.toggle(className, full);
      setFull(full);
    };
    document.addEventListener("fullscreenchange", look);
    return () => {
      document.removeEventListener("fullscreenchange", look);
      main.classList.remove(className);
      if (document.fullscreenElement === main) void document.exitFullscreen();
    };
  }, []);
  const change = () => void (isFull ? document.exitFullscreen() : mainElement().requestFullscreen()).catch(() => {});
  return [isFull, document.fullscreenEnabled ? change : undefined];
}
