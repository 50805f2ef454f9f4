import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router-dom";
import { expect, test } from "vitest";
import { LinkButton } from "./link-button";

test("stays the same element when what is around it changes", () => {
  const page = (words: string) => (
    <MemoryRouter>
      <p>{words}</p>
      <LinkButton variant="link" to={{ pathname: "logs", search: "?show=evidence" }}>
        View full logs
      </LinkButton>
    </MemoryRouter>
  );
  const { rerender } = render(page("one"));
  const before = screen.getByRole("link", { name: "View full logs" });
  expect(before.getAttribute("href")).toBe("/logs?show=evidence");
  rerender(page("two"));
  expect(screen.getByRole("link", { name: "View full logs" })).toBe(before);
});
