import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router-dom";
import { test } from "vitest";
import { Timeline } from "./timeline";

test("each time in the timeline is a button named by what happened then", () => {
  const at = new Date().toISOString();
  render(
    <MemoryRouter>
      <Timeline
        moments={[
          { at, what: "created", look: "neutral", word: "", message: "" },
          { at, what: "event", look: "warning", word: "LauncherFailed", message: "exit code 1" },
        ]}
      />
    </MemoryRouter>,
  );
  screen.getByRole("button", { name: /^\d\d:\d\d:\d\d, Created: choose this moment$/ });
  screen.getByRole("button", { name: /^\d\d:\d\d:\d\d, Launcher failed: choose this moment$/ });
});
