// Times for people: in the language of the page and the person's time zone, with the exact time on request.

import { locale } from "./locale";

const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
  ["second", 1],
];

/** `3 minutes ago`; `now` within 5 seconds. */
export function ago(time: string | number | Date, now: number = Date.now()): string {
  const seconds = Math.round((new Date(time).getTime() - now) / 1000);
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
  if (Math.abs(seconds) < 5) return relative.format(0, "second");
  const [unit, size] = units.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

/** `2d 3h`, `4m 5s`, `6s`: two units at most. */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const parts: [number, string][] = [
    [Math.floor(whole / 86_400), "d"],
    [Math.floor(whole / 3_600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([count]) => count > 0);
  if (first < 0) return "0s";
  return parts
    .slice(first, first + 2)
    .filter(([count]) => count > 0)
    .map(([count, unit]) => `${count}${unit}`)
    .join(" ");
}

/** `5s`, `7m`, `3h`, `2d`: for tables. */
export function age(seconds: number): string {
  return duration(seconds).split(" ")[0] ?? "";
}

/** Seconds from one time to another, or to now. */
export function secondsBetween(from: string, to: string | undefined, now: number = Date.now()): number {
  return ((to ? new Date(to).getTime() : now) - new Date(from).getTime()) / 1000;
}

/** The exact time, with seconds and time zone. */
export function exact(time: string | number | Date): string {
  return new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "long" }).format(new Date(time));
}

const seconds = new Intl.DateTimeFormat(locale, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/** `08:27:58`. */
export function timeOfDay(time: string | number | Date): string {
  return seconds.format(new Date(time));
}

/** The time of day with milliseconds, for lines of logs and events. */
export function clock(time: string | number | Date): string {
  const format = { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false };
  return new Intl.DateTimeFormat(locale, format as Intl.DateTimeFormatOptions).format(new Date(time));
}
