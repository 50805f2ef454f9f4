// The theme as a state of a component.

import { useEffect, useState } from "react";
import { applyTheme, savedTheme, saveTheme, systemContrast, systemDark, type Theme } from "./theme";

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
      saveTheme(chosen);
      setTheme(chosen);
    },
  ];
}
