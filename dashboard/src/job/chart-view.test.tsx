import { act, renderHook } from "@testing-library/react";
import { MemoryRouter, useSearchParams } from "react-router-dom";
import { expect, test } from "vitest";
import { readView, useChartView, writeView } from "./chart-view";

const usual = { axis: undefined, isLog: false, smoothing: 0, range: undefined };

test("an address has only what a person changed, and keeps what is not the charts'", () => {
  const range = [Date.parse("2026-01-01T00:00:00Z"), Date.parse("2026-01-01T00:10:00Z")] as const;
  const view = { axis: "step", isLog: true, smoothing: 0.6, range } as const;
  const address = writeView(new URLSearchParams("at=2026-01-01T00:00:00Z"), view);
  expect(readView(address)).toEqual(view);
  expect(writeView(address, usual).toString()).toBe("at=2026-01-01T00%3A00%3A00Z");
});

test("a range may be open at an end", () => {
  const since = [Date.parse("2026-01-01T00:00:00Z"), Number.POSITIVE_INFINITY] as const;
  expect(readView(writeView(new URLSearchParams(), { range: since })).range).toEqual(since);
  const all = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY] as const;
  expect(writeView(new URLSearchParams(), { range: all }).toString()).toBe("");
});

test("what an address cannot mean is left out", () => {
  const end = "2026-01-01T00:10:00Z";
  for (const text of ["", "x=sideways&y=2&smooth=5&range=never/2026-01-01T00:10:00Z", `range=${end}/${end}`])
    expect(readView(new URLSearchParams(text)), text).toEqual(usual);
});

test("several changes in a row are all kept, beside those of others", () => {
  const { result } = renderHook(() => ({ charts: useChartView(), search: useSearchParams() }), {
    wrapper: ({ children }) => <MemoryRouter>{children}</MemoryRouter>,
  });
  const [, change] = result.current.charts;
  const [, setAddress] = result.current.search;
  act(() => setAddress({ at: "now" }));
  act(() => {
    change({ isLog: true });
    change({ smoothing: 0.6 });
  });
  expect(result.current.charts[0]).toEqual({ ...usual, isLog: true, smoothing: 0.6 });
  expect(result.current.search[0].toString()).toBe("at=now&y=log&smooth=0.6");
});
