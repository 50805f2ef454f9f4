// The page's main landmark: what pops up from a table is put here, because a table that scrolls would cut it off.

export const mainId = "main";

export function mainElement(): HTMLElement {
  return document.querySelector("main") ?? document.body;
}
