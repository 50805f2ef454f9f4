// Times in sentences of the service, which are in UTC: people read them in their own time zone, as every other time of a page.

import { exact, timeOfDay } from "./time";

/** A time as people read it. */
export type TimeInText = {
  text: string;
  /** The same in UTC. */
  utc: string;
  /** For programs, if the sentence says the day. */
  iso?: string;
};

// `2026-01-31T12:00:00Z`, also with a fraction or another offset, or `12:00:00 UTC`.
const times =
  /\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d))|\b(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d UTC\b/g;
const day = 86_400_000;

/** The parts of a sentence, in order: words, and times. */
export function partsOf(sentence: string, now: number = Date.now()): (string | TimeInText)[] {
  const parts: (string | TimeInText)[] = [];
  let end = 0;
  for (const found of sentence.matchAll(times)) {
    const time = found[1] ? withDay(found[1]) : withoutDay(found[0], now);
    if (!time) continue;
    if (found.index > end) parts.push(sentence.slice(end, found.index));
    parts.push(time);
    end = found.index + found[0].length;
  }
  if (end < sentence.length) parts.push(sentence.slice(end));
  return parts;
}

/** The sentence as a text, where no element can be shown. */
export function inLocalTime(sentence: string, now?: number): string {
  return partsOf(sentence, now)
    .map((part) => (typeof part === "string" ? part : part.text))
    .join("");
}

function withDay(text: string): TimeInText | undefined {
  const at = Date.parse(text);
  if (Number.isNaN(at)) return undefined;
  const iso = new Date(at).toISOString();
  return { text: exact(at), utc: `${iso.slice(0, 19).replace("T", " ")} UTC`, iso };
}

/** The time of the day that is nearest to now: the offset of a time zone is not the same on all days. */
function withoutDay(text: string, now: number): TimeInText {
  const [hours = 0, minutes = 0, seconds = 0] = text.slice(0, 8).split(":").map(Number);
  const ofToday = Math.floor(now / day) * day + ((hours * 60 + minutes) * 60 + seconds) * 1000;
  const at = ofToday + Math.round((now - ofToday) / day) * day;
  return { text: timeOfDay(at), utc: text };
}
