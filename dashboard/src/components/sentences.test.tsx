import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { timeOfDay } from "../format/time";
import { Sentence } from "./sentences";

test("a sentence has its times in the time zone of the page, and in UTC where they are pointed at", () => {
  const { container } = render(<Sentence text="the attempt starts at 2026-01-31T07:28:08Z, or at 07:28:08 UTC." />);
  expect(container.textContent).not.toContain("UTC.");
  expect(container.textContent).toContain(timeOfDay("2026-01-31T07:28:08Z"));
  expect(screen.getByTitle("2026-01-31 07:28:08 UTC").getAttribute("datetime")).toBe("2026-01-31T07:28:08.000Z");
  expect(screen.getByTitle("07:28:08 UTC").tagName).toBe("TIME");
});
