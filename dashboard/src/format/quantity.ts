// Kubernetes quantities (https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/): read, multiply, show.

const factors: Record<string, number> = {
  "": 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
};

/** The number that a quantity is, undefined if it is none. */
export function parseQuantity(text: string): number | undefined {
  const match = /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([a-zA-Z]*)$/.exec(text.trim());
  const factor = match ? factors[match[2] ?? ""] : undefined;
  return match && factor !== undefined ? Number(match[1]) * factor : undefined;
}

/** `64 GiB`, `512 MiB`: the largest unit that keeps the number at 1 or more. A line does not break before the unit. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
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
  return new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 }).format(value);
}

/** A number in the person's locale, with at most two digits after the point, or two that are not 0. */
export function number(value: number): string {
  const digits = Math.abs(value) < 0.01 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 2 };
  return new Intl.NumberFormat(undefined, digits).format(value);
}
