// What the browser keeps for the person.

/** Browsers may forbid storage; then nothing is remembered. */
export function remember(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The choice holds until the page is closed.
  }
}

export function recall(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** A saved JSON value, or the fallback if there is none or another version of the page wrote it differently. */
export function recallJson<T>(key: string, valid: (value: unknown) => value is T, fallback: T): T {
  try {
    const value: unknown = JSON.parse(recall(key) ?? "null");
    return valid(value) ? value : fallback;
  } catch {
    return fallback;
  }
}

/** The same until the person closes the tab. */
export function rememberForSession(key: string, value: string): void {
  try {
    sessionStorage.setItem(key, value);
  } catch {
    // It holds until the page is closed.
  }
}

export function recallForSession(key: string): string | null {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}
