// Makes lines that a program wrote harmless and readable. Log text is only ever shown as text, so HTML in it does nothing; what
// remains are terminal codes, characters that reorder or hide text, and lines of any length.

/** The most characters of a line that a row shows. */
export const longestShown = 2_000;

// ECMA-48: CSI, OSC, the other strings (DCS, SOS, PM, APC), two-character sequences, and the one-byte CSI.
const terminalCode =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are what it looks for.
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;

// Controls except tab; marks, embeddings, overrides and isolates of bidirectional text; line and paragraph separators; characters
// without any width.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these characters are what it looks for.
const hidden = /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** The text without terminal codes, as a terminal would leave it, and with every hidden character made visible. */
export function readable(text: string): string {
  if (text.search(hidden) < 0) return text;
  return afterReturn(text.replace(terminalCode, "")).replace(hidden, visible);
}

/** A carriage return writes over the line: of a progress bar, a terminal shows the last state. */
function afterReturn(text: string): string {
  const trimmed = text.replace(/\r+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}

function visible(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

/** What a row shows of a line, and how many characters it leaves out. */
export function shorten(text: string, limit = longestShown): { text: string; more: number } {
  if (text.length <= limit) return { text: readable(text), more: 0 };
  // Codes make a line longer than it looks, and the last state of a progress bar is at the end of the line.
  const start = text.lastIndexOf("\r", text.length - 2) + 1;
  const shown = readable(text.slice(start, start + 4 * limit));
  const cut = shown.slice(0, limit).replace(/[\ud800-\udbff]$/, "");
  return {
    text: cut,
    more: shown.length > limit || text.length > start + 4 * limit ? text.length - start - cut.length : 0,
  };
}

/** The text as a pattern that matches it, for the service's regular expressions too. */
export function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
}
