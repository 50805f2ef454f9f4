import { describe, expect, test } from "vitest";
import type { Schemas } from "../api/client";
import { objectsOf, resultOf } from "./audit-result";

type Line = Schemas["AuditLine"];

const received: Line = { stage: "RequestReceived", channel: "service", verb: "CreateJob", object: "job" };
const admitted: Line = { stage: "ResponseComplete", channel: "webhook", verb: "create", object: "job" };
const created: Line = { stage: "ResponseComplete", channel: "service", status: 200, object: "job" };

describe("the result of an operation", () => {
  test("is the service's own, also where the webhook reported the admission before it", () => {
    expect(resultOf([received, admitted, created])).toEqual({ kind: "answered", status: 200, reason: "" });
  });

  test("is accepted where only the webhook saw it, and refused with the webhook's status", () => {
    expect(resultOf([admitted])).toEqual({ kind: "accepted" });
    const refused = { ...admitted, status: 403, reason: "Forbidden" };
    expect(resultOf([refused])).toEqual({ kind: "answered", status: 403, reason: "Forbidden" });
  });

  test("is unknown while the service has not recorded it, whatever the webhook accepted", () => {
    expect(resultOf([received])).toEqual({ kind: "unknown" });
    expect(resultOf([received, admitted])).toEqual({ kind: "unknown" });
    expect(resultOf([])).toEqual({ kind: "unknown" });
  });
});

test("an operation is about all objects of its lines, each once", () => {
  const batch = ["", "a", "b", "a"].map((object) => ({ ...created, object }));
  expect(objectsOf(batch)).toEqual(["a", "b"]);
});
