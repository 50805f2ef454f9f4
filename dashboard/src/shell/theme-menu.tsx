// Chooses the colour theme.

import { MenuToggle, Select, SelectList, SelectOption } from "@patternfly/react-core";
import AdjustIcon from "@patternfly/react-icons/dist/esm/icons/adjust-icon";
import { useState } from "react";
import { messages } from "../messages";
import { type Theme, themes } from "./theme";
import { useTheme } from "./use-theme";

const text = messages.common.theme;

export function ThemeMenu() {
  const [theme, setTheme] = useTheme();
  const [open, setOpen] = useState(false);
  return (
    <Select
      isOpen={open}
      onOpenChange={setOpen}
      selected={theme}
      onSelect={(_event, value) => {
        setTheme(value as Theme);
        setOpen(false);
      }}
      popperProps={{ position: "right", appendTo: "inline" }}
      toggle={(toggle) => (
        <MenuToggle
          ref={toggle}
          variant="plain"
          isExpanded={open}
          onClick={() => setOpen(!open)}
          aria-label={`${text.label}: ${text[theme]}`}
          icon={<AdjustIcon />}
        />
      )}
    >
      <SelectList aria-label={text.label}>
        {themes.map((one) => (
          <SelectOption key={one} value={one}>
            {text[one]}
          </SelectOption>
        ))}
      </SelectList>
    </Select>
  );
}
