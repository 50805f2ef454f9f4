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

/** Programs that run a line themselves, after `-c`. */
const shells = ["sh", "bash", "dash", "zsh", "ksh", "ash"];

/**
 * What in a text only a shell understands, as it is written there: operators, variables, patterns, and `\n` for lines that
 * follow one another. Nothing runs the text as a shell does, so that programs get all of this as arguments.
 */
export function shellSigns(text: string): string[] {
  const words = splitCommand(text);
  const isShell = shells.includes(words[0]?.split("/").at(-1) ?? "") && /^-\w*c$/.test(words[1] ?? "");
  const signs = new Set<string>();
  let quote = "";
  let at = 0;
  const skip = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const [found = ""] = pattern.exec(text) ?? [];
    at += found.length;
    return found;
  };
  skip(/\s*/y);
  const variable = skip(/[A-Za-z_]\w*=/y);
  if (variable) signs.add(variable);
  while (at < text.trimEnd().length) {
    // A shell that is given a line expands what is between double quotes itself.
    const isExpanded = quote === "" || (quote === '"' && !isShell);
    const sign = isExpanded ? skip(expansion) || (quote === "" && skip(operator)) : "";
    if (sign) signs.add(sign.startsWith("$") ? "$" : sign.trim() || "\n");
    else if (quote !== "'" && skip(/\\[\s\S]/y)) continue;
    else if (quote === "" && skip(comment)) continue;
    else {
      const character = text.charAt(at++);
      if (quote) quote = character === quote ? "" : quote;
      else if (character === "'" || character === '"') quote = character;
    }
  }
  return [...signs];
}

/** `$NAME`, `${…}`, `$(…)` and backticks, but not `$(NAME)`, which Kubernetes replaces by a variable of the container. */
const expansion = /\$(?!\([A-Z_][A-Z0-9_]*\))[\w{(@*#?!]|`/y;
/** What a shell does with a line, also at the end of one, and with patterns of files. */
const operator = /\d?>&\d|\|\||&&|>>|<<|[|&;<>*]|\s*\n\s*/y;
/** A line that is a comment; a quotation mark in it opens nothing. */
const comment = /(?<=^|\n\s*)#.*/y;

/** The command that lets a shell run a text. */
export function inShell(text: string): string[] {
  return ["sh", "-c", text];
}
