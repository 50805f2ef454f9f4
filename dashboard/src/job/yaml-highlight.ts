// Colours a manifest: keys, comments and literal text. For manifests as the service writes them; a file of any other kind is only
// less colourful.

export type Token = { text: string; look?: "key" | "comment" | "literal" | "mark" };

export function highlightYaml(text: string): Token[][] {
  let blockIndent: number | undefined;
  return text.split("\n").map((line) => {
    const indent = line.search(/\S/);
    if (blockIndent !== undefined && (indent < 0 || indent > blockIndent)) return [{ text: line, look: "literal" }];
    blockIndent = undefined;
    if (/(?:^|[:\s-])[|>][+-]?\d?\s*$/.test(line)) {
      // The text is further right than the key that it belongs to, or than the dash if it is an item of a list.
      const start = /^\s*(?:- )*/.exec(line)?.[0].length ?? 0;
      blockIndent = line.includes(":") ? start : start - 2;
    }
    return tokensOf(line);
  });
}

function tokensOf(line: string): Token[] {
  const match = /^(\s*(?:- )*)("(?:[^"\\]|\\.)*"|[^\s#'"].*?)(:)(?=\s|$)(.*)$/.exec(line);
  if (match) {
    const [, start = "", key = "", colon = "", value = ""] = match;
    return join([{ text: start, look: "mark" }, { text: key, look: "key" }, { text: colon }, ...scalarOf(value)]);
  }
  const item = /^(\s*(?:- )*)(.*)$/.exec(line);
  return join([{ text: item?.[1] ?? "", look: "mark" }, ...scalarOf(item?.[2] ?? "")]);
}

function scalarOf(text: string): Token[] {
  const comment = /(^|\s)#.*$/.exec(text);
  if (comment && !/^\s*["']/.test(text))
    return [...scalarOf(text.slice(0, comment.index)), { text: comment[0], look: "comment" }];
  const literal = /^\s*(?:"|'|-?\d[\d.]*\s*$|true\s*$|false\s*$|null\s*$)/.test(text);
  return [literal ? { text, look: "literal" } : { text }];
}

function join(tokens: Token[]): Token[] {
  return tokens.filter((token) => token.text);
}
