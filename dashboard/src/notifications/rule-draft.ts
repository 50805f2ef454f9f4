// A rule while it is edited, and what is sent of it.

import { kindOf, type Schemas } from "../api/client";

export type Rule = Schemas["NotificationRule"];
/** What a rule is about: changes of jobs, or one of the conditions. */
export type When = "change" | "quota" | "runs" | "stalled";
export const whens: When[] = ["change", "quota", "runs", "stalled"];

export type Draft = {
  name: string;
  to: "webhook" | "email";
  address: string;
  when: When;
  phases: string[];
  /** As it was typed. */
  percent: string;
  time: string;
  job: string;
};

/** What writes a rule again as it is. */
export function bodyOf({ url, email, phases, reasons, causes, kind, job, enabled, ...condition }: Rule) {
  const { quotaPercent, runsLongerThan, stalled } = condition;
  const one = job ? { kind: kindOf(kind), job } : {};
  return { url, email, phases, reasons, causes, quotaPercent, runsLongerThan, stalled, ...one, disabled: !enabled };
}

export function whenOf({ quotaPercent, runsLongerThan, stalled }: Rule): When {
  if (quotaPercent !== undefined) return "quota";
  if (runsLongerThan) return "runs";
  return stalled ? "stalled" : "change";
}

export function draftOf(rule: Rule | undefined): Draft {
  const fresh = { phases: ["Failed"], percent: "90", time: "24h" };
  if (!rule) return { ...fresh, name: "", to: "webhook", address: "", when: "change", job: "" };
  const { name = "", url, email = "", job = "", quotaPercent, runsLongerThan } = rule;
  const when = whenOf(rule);
  return {
    name,
    to: url ? "webhook" : "email",
    address: url || email,
    when,
    phases: when === "change" ? rule.phases : fresh.phases,
    percent: quotaPercent === undefined ? fresh.percent : String(quotaPercent),
    time: runsLongerThan || fresh.time,
    job,
  };
}

/** What is sent of a draft. What the form does not show of the rule that it changes stays as it is. */
export function requestOf(draft: Draft, rule: Rule | undefined) {
  const { to, address, when, phases, percent, time, job } = draft;
  const target = to === "webhook" ? { url: address } : { email: address };
  const isSame = job === rule?.job;
  const one = job && when !== "quota" ? { job, ...(isSame && { kind: kindOf(rule.kind) }) } : {};
  const kept = { ...target, ...one, disabled: rule ? !rule.enabled : undefined };
  switch (when) {
    case "change":
      return { ...kept, phases, reasons: rule?.reasons, causes: rule?.causes };
    case "quota":
      return { ...kept, quotaPercent: Number(percent) };
    case "runs":
      return { ...kept, runsLongerThan: time };
    case "stalled":
      return { ...kept, stalled: true };
  }
}

/** Whether the service can be asked to save it. */
export function isComplete({ name, address, when, percent, time }: Draft): boolean {
  if (!name || !address) return false;
  return when === "quota" ? /^\d+$/.test(percent.trim()) : when !== "runs" || time.trim() !== "";
}
