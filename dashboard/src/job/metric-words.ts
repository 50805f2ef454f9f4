// What charts and figures of a job are called, and how their values are written.

import { axisNumber, bytes, number } from "../format/quantity";
import { messages } from "../messages";
import type { Chart } from "./metrics-data";

const text = messages.job.metrics;

export function titleOf(key: string): string {
  return key in text.titles ? text.titles[key as keyof typeof text.titles] : key;
}

export function nameOf({ role, index }: { role?: string; index?: number }, gpu?: string): string {
  const pod = index === undefined ? (role ?? "") : messages.job.workers.name(index);
  return gpu === undefined ? pod : text.gpuOf(pod, gpu);
}

export function valueText(value: number, unit: Chart["unit"]): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "bytesPerSecond") return text.perSecond(bytes(value));
  if (unit === "watts") return `${number(value)} W`;
  if (unit === "percent") return `${number(value)} %`;
  if (unit === "cores") return text.cores(value < 0.1 ? axisNumber(value) : number(value));
  return Math.abs(value) >= 0.01 || value === 0 ? number(value) : value.toExponential(1);
}
