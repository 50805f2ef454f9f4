// The colour theme: the person's choice, else the system's. PatternFly's themes are classes of the document element.

import { useEffect, useState } from "react";
import { recall, remember } from "../browser/storage";

export const themes = ["system", "light", "dark", "contrast"] as const;
export type Theme = (typeof themes)[number];

const storageKey = "training.theme";
const systemDark = window.matchMedia("(prefers-color-scheme: dark)");
const systemContrast = window.matchMedia("(prefers-contrast: more)");

/** Sets the classes before the first paint and on every change; called once, before rendering. */
export function applyTheme(theme: Theme = savedTheme()): void {
  const dark = theme === "dark" || (theme !== "light" && systemDark.matches);
  const contrast = theme === "contrast" || (theme === "system" && systemContrast.matches);
  const { classList, style } = document.documentElement;
  classList.toggle("pf-v6-theme-dark", dark);
  classList.toggle("pf-v6-theme-high-contrast", contrast);
  style.colorScheme = dark ? "dark" : "light";
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState(savedTheme);
  useEffect(() => {
    const apply = () => applyTheme(theme);
    apply();
    systemDark.addEventListener("change", apply);
    systemContrast.addEventListener("change", apply);
    return () => {
      systemDark.removeEventListener("change", apply);
      systemContrast.removeEventListener("change", apply);
    };
  }, [theme]);
  return [
    theme,
    (chosen) => {
      remember(storageKey, chosen);
      setTheme(chosen);
    },
  ];
}

function savedTheme(): Theme {
  const saved = recall(storageKey);
  return themes.find((theme) => theme === saved) ?? "system";
}
