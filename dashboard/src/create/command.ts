// A command as a person types it, and as a manifest has it: a list of words.

/** Splits as a shell does: blanks part words, quotes and backslashes keep them together. No variables, no globs. */
export function splitCommand(text: string): string[] {
  const words: string[] = [];
  let word = "";
  let inWord = false;
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    // A backslash at the end of a line joins it with the next one, but not between single quotes.
    if (character === "\\" && quote !== "'" && text.charAt(at + 1) === "\n") at += 1;
    else if (quote) {
      if (character === quote) quote = "";
      else if (character === "\\" && quote === '"' && /["\\$`]/.test(text.charAt(at + 1))) word += text.charAt(++at);
      else word += character;
    } else if (character === "'" || character === '"') {
      quote = character;
      inWord = true;
    } else if (character === "\\" && at + 1 < text.length) {
      word += text.charAt(++at);
      inWord = true;
    } else if (/\s/.test(character)) {
      if (inWord) words.push(word);
      word = "";
      inWord = false;
    } else {
      word += character;
      inWord = true;
    }
  }
  if (inWord) words.push(word);
  return words;
}

/** Whether a quote is still open, so that the last word is not complete. */
export function hasOpenQuote(text: string): boolean {
  let quote = "";
  for (let at = 0; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === "\\" && quote !== "'") at += 1;
    else if (quote) quote = character === quote ? "" : quote;
    else if (character === "'" || character === '"') quote = character;
  }
  return quote !== "";
}

export function joinCommand(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
}
