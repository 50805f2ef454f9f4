// Holds the newest lines of a log, bounded in number and in characters. Each line keeps its number for as long as it is held.

import type { Schemas } from "../../api/client";

export type LogItem = Schemas["LogItem"];

/** A line, or a note of the service between lines. */
export type Line = {
  kind: "line" | "note";
  pod: string;
  /** Milliseconds since 1970; NaN if the service does not know it. */
  at: number;
  rank: number | undefined;
  text: string;
  level: LogItem["level"];
  evidence: boolean;
  also: Schemas["LogOrigin"][];
};

const none: Schemas["LogOrigin"][] = [];

export function lineOf(item: LogItem): Line {
  return {
    kind: item.type === "line" ? "line" : "note",
    pod: item.pod ?? "",
    at: item.at ? Date.parse(item.at) : Number.NaN,
    rank: item.rank ?? undefined,
    text: item.text ?? "",
    level: item.level,
    evidence: item.evidence ?? false,
    also: item.also?.length ? item.also : none,
  };
}

export class LineBuffer {
  readonly #lines: (Line | undefined)[];
  readonly #mostCharacters: number;
  #characters = 0;
  #first = 0;
  #end = 0;
  #evidence: number[] = [];

  constructor(mostLines = 200_000, mostCharacters = 48_000_000) {
    this.#lines = new Array(mostLines);
    this.#mostCharacters = mostCharacters;
  }

  /** The number of the oldest line that is held: as many were dropped. */
  get first(): number {
    return this.#first;
  }

  /** The number that the next line will have. */
  get end(): number {
    return this.#end;
  }

  get size(): number {
    return this.#end - this.#first;
  }

  /** The numbers of the lines that explain the failure. */
  get evidence(): readonly number[] {
    return this.#evidence;
  }

  at(number: number): Line | undefined {
    return number >= this.#first && number < this.#end ? this.#lines[number % this.#lines.length] : undefined;
  }

  append(batch: readonly Line[]): void {
    for (const line of batch) {
      if (this.size === this.#lines.length) this.#drop();
      this.#lines[this.#end % this.#lines.length] = line;
      if (line.evidence) this.#evidence.push(this.#end);
      this.#end += 1;
      this.#characters += line.text.length;
      while (this.#characters > this.#mostCharacters && this.size > 1) this.#drop();
    }
  }

  /** The line that was written last at a time; the first line if all are later. Lines are in the order of time, but for notes. */
  nearest(time: number): number {
    let low = this.#first;
    let high = this.#end;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#timeFrom(middle, high) <= time) low = middle + 1;
      else high = middle;
    }
    return Math.max(this.#first, low - 1);
  }

  /** The time of a line, or of the next one that has a time. */
  #timeFrom(number: number, end: number): number {
    for (let next = number; next < end; next += 1) {
      const at = this.at(next)?.at;
      if (at !== undefined && !Number.isNaN(at)) return at;
    }
    return Number.POSITIVE_INFINITY;
  }

  #drop(): void {
    const place = this.#first % this.#lines.length;
    this.#characters -= this.#lines[place]?.text.length ?? 0;
    this.#lines[place] = undefined;
    if (this.#evidence[0] === this.#first) this.#evidence.shift();
    this.#first += 1;
  }
}
