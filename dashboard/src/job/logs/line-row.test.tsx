import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Line } from "./buffer";
import { LineRow } from "./line-row";

const plain: Line = { kind: "line", at: Number.NaN, pod: "a-launcher", text: "text", also: [] } as unknown as Line;

function show(line: Partial<Line>) {
  const columns = { times: true, pods: true, wrap: false };
  const nothing = () => {};
  const { container } = render(
    <LineRow
      line={{ ...plain, ...line }}
      number={1}
      columns={columns}
      pattern={undefined}
      isChosen={false}
      onChoose={nothing}
      onWhole={nothing}
    />,
  );
  const row = container.firstElementChild;
  return {
    columns: [...(row?.children ?? [])].map(({ className }) => className),
    sign: row?.querySelector(".log-sign"),
  };
}

test("the text of a line begins in the same column whatever its level is", () => {
  const columns = ["log-time", "log-pod", "log-sign", "log-text"];
  for (const line of [{}, { level: "info" }, { level: "error" }, { evidence: true }] as const)
    expect(show(line).columns, JSON.stringify(line)).toEqual(columns);
});

test("the sign of a line has a word, and a shape, for what its colour says", () => {
  expect(show({ level: "error" }).sign).toHaveTextContent("Error");
  expect(show({ level: "warning", evidence: true }).sign).toHaveTextContent("Evidence, Warning");
  expect(show({ level: "error" }).sign?.querySelector("svg")).not.toBeNull();
  expect(show({ level: "info" }).sign).toBeEmptyDOMElement();
});

test("the time of a line is a button that says what it does", () => {
  show({ at: Date.parse("2026-01-01T10:11:12.345Z") });
  screen.getByRole("button", { name: /^\d\d:\d\d:12\.345: choose this moment$/ });
});
