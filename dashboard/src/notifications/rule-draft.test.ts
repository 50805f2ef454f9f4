import { expect, test } from "vitest";
import { bodyOf, draftOf, isComplete, type Rule, requestOf } from "./rule-draft";

const rule: Rule = {
  name: "failures",
  enabled: true,
  url: "https://example.com/hook",
  phases: ["Failed"],
  reasons: ["Restarting"],
  causes: ["OutOfMemory"],
  kinds: ["MPIJob"],
  job: "bert",
  kind: "TrainJob",
  stalled: false,
};

test("a rule that is not changed is sent as it is", () => {
  expect(requestOf(draftOf(rule), rule)).toEqual({
    url: "https://example.com/hook",
    job: "bert",
    kind: "trainjob",
    disabled: false,
    phases: ["Failed"],
    reasons: ["Restarting"],
    causes: ["OutOfMemory"],
  });
});

test("a rule with a condition is sent without transitions, and one about a quota without a job", () => {
  const { phases, reasons, causes, ...rest } = rule;
  const target = { url: "https://example.com/hook", disabled: false };
  const one = { job: "bert", kind: "trainjob" };
  const draft = draftOf(rule);
  expect(requestOf({ ...draft, when: "quota", percent: "80" }, rule)).toEqual({ ...target, quotaPercent: 80 });
  expect(requestOf({ ...draft, when: "runs", time: "36h" }, rule)).toEqual({
    ...target,
    ...one,
    runsLongerThan: "36h",
  });
  expect(requestOf({ ...draft, when: "stalled" }, rule)).toEqual({ ...target, ...one, stalled: true });
  const none = { phases: [], reasons: [], causes: [] };
  const full: Rule = { ...rest, ...none, job: "", kind: "", quotaPercent: 95 };
  expect(draftOf(full)).toMatchObject({ when: "quota", percent: "95" });
  expect(draftOf({ ...rest, ...none, runsLongerThan: "1d" })).toMatchObject({ when: "runs", time: "1d" });
  expect(draftOf({ ...rest, ...none, stalled: true })).toMatchObject({ when: "stalled" });
});

test("a rule that is silenced keeps its condition", () => {
  expect(bodyOf({ ...rule, phases: [], quotaPercent: 95 })).toMatchObject({ quotaPercent: 95, phases: [] });
  expect(bodyOf({ ...rule, phases: [], runsLongerThan: "1d" })).toMatchObject({ runsLongerThan: "1d" });
  expect(bodyOf({ ...rule, phases: [], stalled: true })).toMatchObject({ stalled: true });
});

test("a draft is complete with a name, an address and what its condition needs", () => {
  const draft = { ...draftOf(undefined), name: "a", address: "https://example.com/" };
  expect(isComplete(draft)).toBe(true);
  expect(isComplete({ ...draft, name: "" })).toBe(false);
  expect(isComplete({ ...draft, when: "quota", percent: "" })).toBe(false);
  expect(isComplete({ ...draft, when: "quota", percent: "9o" })).toBe(false);
  expect(isComplete({ ...draft, when: "runs", time: " " })).toBe(false);
  expect(isComplete({ ...draft, when: "stalled", percent: "", time: "" })).toBe(true);
});
