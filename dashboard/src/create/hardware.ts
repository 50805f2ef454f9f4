// Hardware profiles of Open Data Hub: what each sets in the fields of a job, and which one the fields have now. A profile is no
// field of a job: only what it sets is sent.

import type { Choices, Read } from "../api/choices";
import type { Kind, Schemas } from "../api/client";
import { messages } from "../messages";
import { pathsOf } from "./controls";
import { type Fields, isObject, kindOfFields, setAt, type Update, valueAt, wholeNumber } from "./fields";

const text = messages.create.hardware;
/** Kueue's label for the priority of a job in its queue. */
const priorityLabel = "kueue.x-k8s.io/priority-class";

export type Profile = Schemas["HardwareProfileChoice"];
/** `note`: why there are none, or that there are others. */
export type Hardware = { profiles: readonly Profile[]; note?: string };
/** A value of a field, or of an entry of a map. */
type Setting = { at: string; entry?: string; value: unknown };

/** None where the cluster has no such profiles, or where it is not read yet. */
export function hardwareOf({ data }: Read<Choices>): Hardware {
  const why = data?.unknown.find(({ part }) => part === "hardwareProfiles")?.message;
  if (why) return { profiles: [], note: text.unknown(why) };
  const { profiles = [], more } = data?.hardwareProfiles ?? {};
  return { profiles, note: more ? text.more : undefined };
}

export function idOf({ namespace, name }: Profile): string {
  return `${namespace}/${name}`;
}

/** The profile whose values the fields have: of several with the same values, the one that was picked last. */
export function chosenOf({ profiles }: Hardware, fields: Fields, picked: string): Profile | undefined {
  const fits = profiles.filter((profile) => {
    const { applied } = settingsOf(profile, kindOfFields(fields));
    return applied.length > 0 && applied.every((one) => isEqual(read(fields, one), one.value));
  });
  return fits.find((one) => idOf(one) === picked) ?? fits[0];
}

/** Sets what a profile says, in place of what another one had set. */
export function takeProfile(next: Profile | undefined, before: Profile | undefined): Update {
  return (fields) => {
    const kind = kindOfFields(fields);
    const removed = before ? settingsOf(before, kind).applied.map((one) => ({ ...one, value: undefined })) : [];
    const set = next ? settingsOf(next, kind).applied : [];
    return [...removed, ...set].reduce(write, fields);
  };
}

/** The amounts that a profile is meant for. */
export function amountsOf({ resources }: Profile): string[] {
  return resources.flatMap(({ resource = "", title, minimum, maximum }) => {
    if (!minimum) return [];
    const name = title || resource;
    return [maximum ? text.between(name, minimum, maximum) : text.atLeast(name, minimum)];
  });
}

/** The fields that a profile sets and that the form of a kind of job does not have. */
export function missingOf(profile: Profile, kind: Kind): string[] {
  return [...new Set(settingsOf(profile, kind).missing.map(({ at }) => at))];
}

/** What a profile sets for a kind of job, and what that kind has no field for. */
function settingsOf(profile: Profile, kind: Kind): { applied: Setting[]; missing: Setting[] } {
  const { queue, workloadPriorityClass, nodeSelector = {}, tolerations } = profile;
  const all: Setting[] = profile.resources.map(ofResource).filter(({ value }) => value !== "");
  if (queue) all.push({ at: "queue", value: queue });
  if (workloadPriorityClass) all.push({ at: "labels", entry: priorityLabel, value: workloadPriorityClass });
  for (const [entry, value] of Object.entries(nodeSelector)) all.push({ at: "scheduling.nodeSelector", entry, value });
  if (tolerations.length) all.push({ at: "scheduling.tolerations", value: tolerations });
  const known = pathsOf(kind);
  const has = ({ at }: Setting) => known.includes(at);
  return { applied: all.filter(has), missing: all.filter((one) => !has(one)) };
}

function ofResource({ resource = "", initial, minimum }: Schemas["HardwareResource"]): Setting {
  const value = initial || minimum || "";
  if (resource === "cpu" || resource === "memory") return { at: resource, value };
  if (resource === "nvidia.com/gpu") return { at: "gpus", value: wholeNumber(value) ?? "" };
  return { at: "worker.limits", entry: resource, value };
}

function read(fields: Fields, { at, entry }: Setting): unknown {
  const value = valueAt(fields, at);
  if (entry === undefined) return value;
  return isObject(value) ? value[entry] : undefined;
}

function write(fields: Fields, { at, entry, value }: Setting): Fields {
  if (entry === undefined) return setAt(at, value)(fields);
  const before = valueAt(fields, at);
  const { [entry]: _gone, ...others } = isObject(before) ? before : {};
  const after = value === undefined ? others : { ...others, [entry]: value };
  return setAt(at, Object.keys(after).length ? after : undefined)(fields);
}

function isEqual(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, index) => isEqual(item, other[index]));
  if (!isObject(one) || !isObject(other)) return one === other;
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].every((name) => isEqual(one[name], other[name]));
}
