// Usage over time: a period in equal parts, and what each group used of a resource in each.

import type { Schemas } from "../api/client";

export type Period = "1d" | "7d" | "30d" | "90d";
type Unit = "hour" | "day" | "week";

const parts: Record<Period, { unit: Unit; count: number }> = {
  "1d": { unit: "hour", count: 24 },
  "7d": { unit: "day", count: 7 },
  "30d": { unit: "day", count: 30 },
  "90d": { unit: "week", count: 13 },
};

/** A part of a period, as the service reads times. The last one has no end: it goes on. */
export type Bucket = { from: string; until: string | undefined };

/** The parts of a period that ends now, the oldest first; they begin at whole hours or days of the person's time zone. */
export function bucketsOf(period: Period, now: Date): Bucket[] {
  const { unit, count } = parts[period];
  const starts = Array.from({ length: count }, (_, index) => {
    const at = new Date(now);
    if (unit === "hour") at.setHours(at.getHours() - (count - 1 - index), 0, 0, 0);
    else {
      at.setHours(0, 0, 0, 0);
      const days = unit === "week" ? 7 : 1;
      // The last part has today as its last day.
      at.setDate(at.getDate() - (count - index) * days + 1);
    }
    return at.toISOString();
  });
  return starts.map((from, index) => ({ from, until: starts[index + 1] }));
}

export type Group = {
  /** Empty for all groups that are not shown one by one. */
  name: string;
  /** The hours in each part. */
  hours: number[];
  total: number;
};

/** The largest groups, and the sum of the others if there are any. */
export function groupsOf(
  usage: readonly (readonly Schemas["Usage"][])[],
  resource: string,
  nameOf: (row: Schemas["Usage"]) => string,
  most: number,
): Group[] {
  const groups = new Map<string, Group>();
  usage.forEach((rows, index) => {
    for (const row of rows) {
      const name = nameOf(row);
      const amount = row.amounts.find((one) => one.resource === resource);
      const hours = Number(amount?.hours ?? 0);
      if (!hours) continue;
      const group = groups.get(name) ?? { name, hours: usage.map(() => 0), total: 0 };
      group.hours[index] = (group.hours[index] ?? 0) + hours;
      group.total += hours;
      groups.set(name, group);
    }
  });
  const sorted = [...groups.values()].sort((a, b) => b.total - a.total || a.name.localeCompare(b.name));
  if (sorted.length <= most) return sorted;
  return [...sorted.slice(0, most - 1), sorted.slice(most - 1).reduce(sum, { name: "", hours: [], total: 0 })];
}

function sum(one: Group, other: Group): Group {
  const hours = other.hours.map((value, index) => value + (one.hours[index] ?? 0));
  return { name: "", hours, total: one.total + other.total };
}

/** A round number that is not below the largest sum: the top of the axis. */
export function topOf(groups: readonly Group[]): number {
  const sums = groups[0]?.hours.map((_, index) => groups.reduce((all, group) => all + (group.hours[index] ?? 0), 0));
  const largest = Math.max(0, ...(sums ?? []));
  if (!largest) return 1;
  const power = 10 ** Math.floor(Math.log10(largest));
  return ([1, 2, 4, 5, 8, 10].find((factor) => factor * power >= largest) ?? 10) * power;
}
