// A part of the page that scrolls by itself, and that the keyboard can reach for that.

import { type ComponentPropsWithoutRef, forwardRef } from "react";

type Props = ComponentPropsWithoutRef<"section"> & { label: string };

export const ScrollRegion = forwardRef<HTMLElement, Props>(function ScrollRegion({ label, ...props }, ref) {
  // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys scroll only what has the focus.
  return <section {...props} ref={ref} aria-label={label} tabIndex={0} />;
});
