// Which parts of a line a search has found.

import { type Finder, finder } from "./pattern";
import { escapePattern } from "./text";

/** A part of a line, and whether the search found it. */
export type Piece = { text: string; found: boolean };

const mostMatches = 100;

/** The parts of a line that match and those between them. */
export function pieces(text: string, find: Finder | undefined): Piece[] {
  if (!find) return [{ text, found: false }];
  const all: Piece[] = [];
  let shown = 0;
  let matches = 0;
  for (const { start, end } of find(text)) {
    if (end === start) continue;
    if (start > shown) all.push({ text: text.slice(shown, start), found: false });
    all.push({ text: text.slice(start, end), found: true });
    shown = end;
    matches += 1;
    if (matches === mostMatches) break;
  }
  if (shown < text.length || all.length === 0) all.push({ text: text.slice(shown), found: false });
  return all;
}

/** Finds what is to be highlighted: undefined for a pattern that only the service's engine knows. */
export function highlighter(search: string, regex: boolean, matchCase: boolean): Finder | undefined {
  return search ? finder(regex ? search : escapePattern(search), matchCase) : undefined;
}
