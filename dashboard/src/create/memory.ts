// What somebody may have meant by an amount of memory without a unit, or with one that Kubernetes does not know.

import { parseQuantity } from "../format/quantity";

/** From here on, the service takes a number without a unit as bytes. */
const leastBytes = 1024 ** 2;

/** `16` and `16GB` may mean `16Gi`; `512` may also mean `512Mi`. An amount that is clear means nothing else. */
export function meantMemory(text: string): string[] {
  const [, digits = "", unit] = /^\s*(\d+(?:\.\d+)?)\s*(?:([kmgt])i?b?)?\s*$/i.exec(text) ?? [];
  const amount = Number(digits);
  if (!amount) return [];
  // `100m` is a tenth of a byte.
  if (unit) return (parseQuantity(text) ?? 0) >= 1 ? [] : [`${digits}${unit.toUpperCase()}i`];
  if (amount >= leastBytes) return [];
  if (amount < 128) return [`${digits}Gi`];
  return amount < 1024 ? [`${digits}Gi`, `${digits}Mi`] : [`${digits}Mi`];
}
