import { expect, test, vi } from "vitest";
import { exact, timeOfDay } from "./time";
import { inLocalTime, partsOf } from "./times-in-text";

// Half an hour is part of its offset, so that no number stays as it is.
vi.hoisted(() => {
  process.env.TZ = "Asia/Kolkata";
});

const now = Date.parse("2026-01-31T07:27:58Z");

test("a time of the day in UTC is shown in the person's time zone, with UTC on request", () => {
  const sentence = "A rank was killed; attempt 2 of 4 of the Launcher starts at about 07:28:08 UTC";
  const local = timeOfDay("2026-01-31T07:28:08Z");
  expect(partsOf(sentence, now)).toEqual([
    "A rank was killed; attempt 2 of 4 of the Launcher starts at about ",
    { text: local, utc: "07:28:08 UTC" },
  ]);
  expect(inLocalTime(sentence, now)).toBe(sentence.replace("07:28:08 UTC", local));
});

test("a time beyond midnight is that of the day that is nearest", () => {
  const late = Date.parse("2026-03-28T23:59:50Z");
  expect(inLocalTime("until 00:00:20 UTC; then", late)).toBe(`until ${timeOfDay("2026-03-29T00:00:20Z")}; then`);
  const early = Date.parse("2026-03-29T00:00:20Z");
  expect(inLocalTime("since 23:59:50 UTC", early)).toBe(`since ${timeOfDay("2026-03-28T23:59:50Z")}`);
});

test("a time with its day is shown as exactly as elsewhere", () => {
  const parts = partsOf("from 2026-01-31T07:28:08Z to 2026-01-31T08:30:00.5+01:00", now);
  expect(parts).toEqual([
    "from ",
    { text: exact("2026-01-31T07:28:08Z"), utc: "2026-01-31 07:28:08 UTC", iso: "2026-01-31T07:28:08.000Z" },
    " to ",
    { text: exact("2026-01-31T07:30:00.5Z"), utc: "2026-01-31 07:30:00 UTC", iso: "2026-01-31T07:30:00.500Z" },
  ]);
});

test("text that is not a time is unchanged", () => {
  for (const text of ["", "Rank 3 of 12:00:00", "25:00:00 UTC", "2026-13-31T07:28:08Z", "at 7:28 UTC", "UTC"])
    expect(partsOf(text, now), text).toEqual(text ? [text] : []);
});
