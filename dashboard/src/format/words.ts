// Turns the service's CamelCase words into words for people.

/** `OutOfMemory` → `Out of memory`; `GPUsExhausted` → `GPUs exhausted`. */
export function sentence(word: string): string {
  const parts = word.match(/[A-Z]{2,}s?(?=[A-Z][a-z]|\b|\d)|[A-Z]?[a-z]+|[A-Z]+|\d+/g);
  if (!parts) return word;
  return parts.map((part, index) => (index === 0 || /^[A-Z]{2,}/.test(part) ? part : part.toLowerCase())).join(" ");
}

/** `ask an administrator` → `Ask an administrator`: what begins a line of its own. */
export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
