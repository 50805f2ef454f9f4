// Kubernetes quantities (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/): read, multiply, show.

import { locale } from "./locale";

/** Powers of ten of the decimal suffixes. */
const decimal: Record<string, number> = { n: -9, u: -6, m: -3, "": 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 };
/** Powers of two of the binary suffixes. */
const binary: Record<string, number> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };

/** The number that a quantity is, undefined if it is none. A number has a suffix or an exponent, not both. */
export function parseQuantity(text: string): number | undefined {
  const [, digits = "", exponent, suffix = ""] =
    /^([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([a-zA-Z]*))$/.exec(text) ?? [];
  if (!digits) return undefined;
  if (Object.hasOwn(binary, suffix)) return Number(digits) * 2 ** (binary[suffix] ?? 0);
  const power = exponent ?? (Object.hasOwn(decimal, suffix) ? decimal[suffix] : undefined);
  // Rounded once: 100 times 1e-6 would be 0.00009999999999999999.
  const value = power === undefined ? Number.NaN : Number(`${digits}e${power}`);
  return Number.isFinite(value) ? value : undefined;
}

/** A quantity as `show` writes its number. Text that is not a quantity is returned unchanged, never as 0. */
export function quantityText(text: string, show: (value: number) => string): string {
  const value = parseQuantity(text);
  return value === undefined ? text : show(value);
}

/** `64 GiB`, `512 MiB`: the largest unit that keeps the number at 1 or more. A line does not break before the unit. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let rest = value;
  let unit = 0;
  while (rest >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${number(rest)}\u00a0${units[unit]}`;
}

/** A number at an axis: neighbours differ however small they are. */
export function axisNumber(value: number): string {
  return new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 }).format(value);
}

/** A number with at most two digits after the point, or two that are not 0. */
export function number(value: number): string {
  const digits = Math.abs(value) < 0.01 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 2 };
  return new Intl.NumberFormat(locale, digits).format(value);
}
