// The colour theme: the person's choice, else the system's. PatternFly's themes are classes of the document element.

import { recall, remember } from "../browser/storage";

export const themes = ["system", "light", "dark", "contrast"] as const;
export type Theme = (typeof themes)[number];

const storageKey = "training.theme";
export const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
export const systemContrast = window.matchMedia("(prefers-contrast: more)");

/** Sets the classes before the first paint and on every change; called once, before rendering. */
export function applyTheme(theme: Theme = savedTheme()): void {
  const dark = theme === "dark" || (theme !== "light" && systemDark.matches);
  const contrast = theme === "contrast" || (theme === "system" && systemContrast.matches);
  const { classList, style } = document.documentElement;
  classList.toggle("pf-v6-theme-dark", dark);
  classList.toggle("pf-v6-theme-high-contrast", contrast);
  style.colorScheme = dark ? "dark" : "light";
}

export function savedTheme(): Theme {
  const saved = recall(storageKey);
  return themes.find((theme) => theme === saved) ?? "system";
}

export function saveTheme(theme: Theme): void {
  remember(storageKey, theme);
}
