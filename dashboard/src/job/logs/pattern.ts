// Finds a regular expression in a line in time that grows with the length of the line only, as the service's engine does. The
// browser's own engine tries one way after another: for `(a|a)*b` or `.*x.*y.*z` that takes for ever, and the page with it.
//
// A pattern becomes a small program whose threads read the line together, one character after another (Pike's machine). Which
// characters an atom such as `[a-z]` or `\d` stands for, the browser's engine decides, one character at a time.

import { escapePattern } from "./text";

/** Where a pattern was found: the first character, and the one after the last. */
export type Match = { start: number; end: number };

/** Finds a pattern in a text, from left to right. */
export type Finder = (text: string) => Iterable<Match>;

type Place = { text: string; at: number };
type Node =
  | { kind: "atom"; holds: (character: string) => boolean }
  | { kind: "assertion"; holds: (place: Place) => boolean }
  | { kind: "sequence"; parts: Node[] }
  | { kind: "choice"; parts: Node[] }
  | Repetition;
type Repetition = { kind: "repetition"; part: Node; least: number; most: number; greedy: boolean };
type Step =
  | { do: "read"; holds: (character: string) => boolean }
  | { do: "check"; holds: (place: Place) => boolean }
  | { do: "split"; to: number[] }
  | { do: "end" };

/** The most steps of a program: `(a{99}){99}` would have ten thousand. */
const mostSteps = 1_000;
const mostGroups = 50;
/** How often threads read a character of one line at most: some milliseconds. Matches after that are not marked. */
const mostReads = 200_000;

/** What this engine does not know; the service's does. */
class Unknown extends Error {}

/** Finds a pattern of the service; undefined if it has something that this page does not know. */
export function finder(pattern: string, matchCase: boolean): Finder | undefined {
  try {
    const steps = programOf(new Reader(pattern, matchCase ? "u" : "iu").whole());
    return (text) => matches(steps, text);
  } catch (fault) {
    if (fault instanceof Unknown || fault instanceof SyntaxError) return undefined;
    throw fault;
  }
}

class Reader {
  private at = 0;
  private groups = 0;

  constructor(
    private readonly pattern: string,
    private readonly flags: string,
  ) {}

  whole(): Node {
    const node = this.choice();
    if (this.at < this.pattern.length) throw new Unknown();
    return node;
  }

  private choice(): Node {
    const one = this.sequence();
    const parts = [one];
    while (this.takes("|")) parts.push(this.sequence());
    return parts.length === 1 ? one : { kind: "choice", parts };
  }

  private sequence(): Node {
    const parts: Node[] = [];
    while (this.at < this.pattern.length && !"|)".includes(this.next)) parts.push(this.repeated());
    return { kind: "sequence", parts };
  }

  private repeated(): Node {
    let part = this.single();
    for (;;) {
      const [least, most] = this.amount() ?? [];
      if (least === undefined || most === undefined) return part;
      part = { kind: "repetition", part, least, most, greedy: !this.takes("?") };
    }
  }

  private amount(): [number, number] | undefined {
    if (this.takes("*")) return [0, Infinity];
    if (this.takes("+")) return [1, Infinity];
    if (this.takes("?")) return [0, 1];
    const [all, least = "", comma, most] = /^\{(\d+)(,)?(\d*)\}/.exec(this.pattern.slice(this.at)) ?? [];
    if (!all) return undefined;
    this.at += all.length;
    return [Number(least), comma ? (most ? Number(most) : Infinity) : Number(least)];
  }

  private single(): Node {
    if (this.takes("(")) return this.group();
    if (this.takes("^")) return { kind: "assertion", holds: ({ at }) => at === 0 };
    if (this.takes("$")) return { kind: "assertion", holds: ({ text, at }) => at === text.length };
    const [word, letter] = /^\\(.)/u.exec(this.pattern.slice(this.at)) ?? [];
    if (word && letter && "bB".includes(letter)) {
      this.at += word.length;
      return { kind: "assertion", holds: (place) => isAtWord(place) === (letter === "b") };
    }
    return this.atom();
  }

  private group(): Node {
    const [head = ""] = /^\?(?::|P?<[A-Za-z_]\w*>)/.exec(this.pattern.slice(this.at)) ?? [];
    if (!head && this.next === "?") throw new Unknown();
    this.at += head.length;
    this.groups += 1;
    if (this.groups > mostGroups) throw new Unknown();
    const inner = this.choice();
    if (!this.takes(")")) throw new Unknown();
    return inner;
  }

  /** One character, or a class of them. */
  private atom(): Node {
    // A class within a class (`[[:alpha:]]`) is something else for this browser. So are other escapes with letters.
    const known = /^(?:\[\^?(?:\\.|[^\]\\[])+\]|\\(?:[dDwWsStnrfv]|x[0-9a-fA-F]{2}|[pP]\{\w+\}|[^\w\s])|[^\\[])/u;
    const [source] = known.exec(this.pattern.slice(this.at)) ?? [];
    if (!source || "*+?{".includes(source) || /&&|--|~~/.test(source)) throw new Unknown();
    this.at += source.length;
    return { kind: "atom", holds: characterTest(source, this.flags) };
  }

  private get next(): string {
    return this.pattern.charAt(this.at);
  }

  private takes(character: string): boolean {
    if (this.next !== character) return false;
    this.at += 1;
    return true;
  }
}

/** Whether an atom stands for a character. The browser's engine is asked once for each of the usual ones. */
function characterTest(source: string, flags: string): (character: string) => boolean {
  // Characters that need no escape here, and escapes that need none in the browser (`\-`, `\"`).
  const [, literal] = /^\\?([^\w\s[.])$/u.exec(source) ?? [];
  const expression = new RegExp(`^(?:${literal === undefined ? source : escapePattern(literal)})$`, flags);
  const known: boolean[] = [];
  return (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code >= 256) return expression.test(character);
    const holds = known[code] ?? expression.test(character);
    known[code] = holds;
    return holds;
  };
}

/** The character at an index, which may be two units of the text; empty at its end. */
function characterAt(text: string, at: number): string {
  return at < text.length ? String.fromCodePoint(text.codePointAt(at) ?? 0) : "";
}

function isAtWord({ text, at }: Place): boolean {
  const isWord = (index: number) => /\w/.test(text.charAt(index));
  return isWord(at - 1) !== isWord(at);
}

function programOf(pattern: Node): Step[] {
  const steps: Step[] = [];
  const add = <S extends Step>(step: S): S => {
    if (steps.length === mostSteps) throw new Unknown();
    steps.push(step);
    return step;
  };
  const write = (node: Node): void => {
    if (node.kind === "atom") add({ do: "read", holds: node.holds });
    else if (node.kind === "assertion") add({ do: "check", holds: node.holds });
    else if (node.kind === "sequence") for (const part of node.parts) write(part);
    else if (node.kind === "choice") writeChoice(node.parts);
    else writeRepetition(node);
  };
  const writeChoice = (parts: Node[]): void => {
    const fork = add({ do: "split", to: [] as number[] });
    const ends = parts.map((part) => {
      fork.to.push(steps.length);
      write(part);
      return add({ do: "split", to: [] as number[] });
    });
    for (const end of ends) end.to.push(steps.length);
  };
  const writeRepetition = ({ part, least, most, greedy }: Repetition): void => {
    if (most < least || Math.max(least, most === Infinity ? 0 : most) > mostSteps) throw new Unknown();
    for (let times = 0; times < least; times += 1) write(part);
    const skips: { to: number[] }[] = [];
    for (let times = least; times < (most === Infinity ? least + 1 : most); times += 1) {
      const begin = steps.length;
      const fork = add({ do: "split", to: [] as number[] });
      write(part);
      if (most === Infinity) add({ do: "split", to: [begin] });
      fork.to.push(begin + 1);
      skips.push(fork);
    }
    for (const { to } of skips) {
      if (greedy) to.push(steps.length);
      else to.unshift(steps.length);
    }
  };
  write(pattern);
  add({ do: "end" });
  return steps;
}

function* matches(steps: Step[], text: string): Generator<Match> {
  let from = 0;
  const reads = { left: mostReads };
  while (from <= text.length) {
    const match = first(steps, text, from, reads);
    if (!match) return;
    yield match;
    from = match.end > match.start ? match.end : match.end + Math.max(characterAt(text, match.end).length, 1);
  }
}

/** A thread: the step that it is at, and where it began. Threads are in the order in which the pattern prefers them. */
type Thread = { step: number; start: number };

/** The first match at or after an index; of those that begin there, the one that the pattern prefers. */
function first(steps: Step[], text: string, from: number, reads: { left: number }): Match | undefined {
  const reached = new Int32Array(steps.length).fill(-1);
  let threads: Thread[] = [];
  let found: Match | undefined;
  const follow = (into: Thread[], step: number, start: number, at: number): void => {
    const one = steps[step];
    if (!one || reached[step] === at) return;
    reached[step] = at;
    if (one.do === "split") for (const next of one.to) follow(into, next, start, at);
    else if (one.do !== "check") into.push({ step, start });
    else if (one.holds({ text, at })) follow(into, step + 1, start, at);
  };
  for (let at = from; ; ) {
    if (!found) follow(threads, 0, at, at);
    const character = characterAt(text, at);
    const after = at + character.length;
    const next: Thread[] = [];
    reads.left -= threads.length;
    if (reads.left < 0) return undefined;
    for (const { step, start } of threads) {
      const one = steps[step];
      if (one?.do === "end") {
        found = { start, end: at };
        // What follows is preferred less.
        break;
      }
      if (one?.do === "read" && character && one.holds(character)) follow(next, step + 1, start, after);
    }
    if (!character || (found && next.length === 0)) return found;
    threads = next;
    at = after;
  }
}
