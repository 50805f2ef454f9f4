// The language of numbers and times: that of the page's words.

/** The variant of English that the browser prefers, whatever its other languages: `in 5 Sekunden` is no English sentence. */
export function localeOf(languages: readonly string[]): string {
  return languages.find((language) => /^en(?:-|$)/i.test(language)) ?? "en-US";
}

export const locale = localeOf(navigator.languages);
