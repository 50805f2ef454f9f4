// Puts events together that report the same about several objects, so that 100 Workers that start do not hide the one that did not.

import type { JobEvent } from "./use-job";

export type EventGroup = {
  key: string;
  type: "Normal" | "Warning";
  reason: string;
  message: string;
  /** When it first and last occurred, as far as the events say. */
  first: string;
  last: string;
  count: number;
  objects: string[];
};

/** Groups in the order in which each last occurred, the newest first. */
export function groupEvents(events: readonly JobEvent[], alike: boolean): EventGroup[] {
  const groups = new Map<string, EventGroup>();
  for (const [place, event] of events.entries()) {
    const { reason = "", message = "", object = "", at = "", type = "Normal" } = event;
    const key = alike ? [type, reason, kindOf(object), withoutName(message, object)].join("\n") : String(place);
    const count = Math.max(1, event.count ?? 1);
    const group = groups.get(key);
    if (!group) {
      groups.set(key, { key, type, reason, message, first: at, last: at, count, objects: [object] });
      continue;
    }
    group.count += count;
    if (at < group.first) group.first = at;
    if (at >= group.last) Object.assign(group, { last: at, message });
    if (!group.objects.includes(object)) group.objects.push(object);
  }
  return [...groups.values()].sort((a, b) => (a.last < b.last ? 1 : a.last > b.last ? -1 : 0));
}

function kindOf(object: string): string {
  return object.split("/")[0] ?? "";
}

/** `Successfully assigned default/a-worker-1 to node-2` is the same event for each pod, whichever node it got. */
function withoutName(message: string, object: string): string {
  const name = object.slice(object.indexOf("/") + 1);
  const same = name ? message.replaceAll(name, "…") : message;
  return same.replace(/( assigned … to| assigned [^ ]*… to) \S+/, "$1 …");
}

export type EventFilter = { search: string; type: "" | "Normal" | "Warning" };

export function matches(group: EventGroup, { search, type }: EventFilter): boolean {
  if (type && group.type !== type) return false;
  const wanted = search.trim().toLowerCase();
  if (!wanted) return true;
  return [group.reason, group.message, ...group.objects].some((text) => text.toLowerCase().includes(wanted));
}
