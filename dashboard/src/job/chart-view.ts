// How the charts of a page are looked at, as its address says: their axes, the smoothing, and the part of the time.

import { useCallback, useEffect, useState } from "react";
import { useSearchParams } from "react-router-dom";
import type { Drawing } from "./chart";
import type { Range } from "./curves";

export const smoothings = [0, 0.3, 0.6, 0.9, 0.97] as const;

export type ChartView = Drawing & {
  /** The axis that the person chose; each page has one of its own. */
  axis: "time" | "step" | undefined;
  range: Range | undefined;
};

export function readView(address: URLSearchParams): ChartView {
  const smooth = Number(address.get("smooth"));
  const [first = "", last = ""] = (address.get("range") ?? "").split("/");
  const from = first ? Date.parse(first) : Number.NEGATIVE_INFINITY;
  const to = last ? Date.parse(last) : Number.POSITIVE_INFINITY;
  return {
    axis: (["time", "step"] as const).find((axis) => axis === address.get("x")),
    isLog: address.get("y") === "log",
    smoothing: smoothings.find((one) => one === smooth) ?? 0,
    range: from < to && (first || last) ? [from, to] : undefined,
  };
}

export function writeView(address: URLSearchParams, change: Partial<ChartView>): URLSearchParams {
  const { axis, isLog, smoothing, range } = { ...readView(address), ...change };
  const after = new URLSearchParams(address);
  const set = (name: string, value: string | undefined) => (value ? after.set(name, value) : after.delete(name));
  set("x", axis);
  set("y", isLog ? "log" : undefined);
  set("smooth", smoothing ? String(smoothing) : undefined);
  const isOpen = !range?.some(Number.isFinite);
  set(
    "range",
    isOpen ? undefined : range?.map((time) => (Number.isFinite(time) ? new Date(time).toISOString() : "")).join("/"),
  );
  return after;
}

/** The view is kept here and written into the address: several changes in a row may be made before the address has the first. */
export function useChartView(): [ChartView, (change: Partial<ChartView>) => void] {
  const [address, setAddress] = useSearchParams();
  const [view, setView] = useState(() => readView(address));
  useEffect(() => {
    if (writeView(address, view).toString() === address.toString()) return;
    setAddress((before) => writeView(before, view), { replace: true, preventScrollReset: true });
  }, [address, setAddress, view]);
  const change = useCallback((to: Partial<ChartView>) => setView((before) => ({ ...before, ...to })), []);
  return [view, change];
}
