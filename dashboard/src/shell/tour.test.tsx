import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { afterEach, describe, expect, test, vi } from "vitest";
import { messages } from "../messages";
import { Tour } from "./tour";
import { isFirstVisit } from "./use-tour";

afterEach(() => localStorage.clear());

/** Shows the tour on a page with a title and, below it, these parts. */
function shown(parts?: ReactNode) {
  const user = userEvent.setup();
  const close = vi.fn();
  render(
    <main>
      <h1>Jobs</h1>
      {parts}
      <Tour onClose={close} />
    </main>,
  );
  return { user, close };
}

describe("the tour", () => {
  test("is for the first visit of the list of jobs, not for a link to something else", () => {
    expect(isFirstVisit("/", "")).toBe(true);
    expect(isFirstVisit("/jobs", "")).toBe(true);
    expect(isFirstVisit("/jobs", "?phase=Failed")).toBe(false);
    expect(isFirstVisit("/jobs/team/mpijob/train", "")).toBe(false);
    localStorage.setItem("training.tour", "seen");
    expect(isFirstVisit("/jobs", "")).toBe(false);
  });

  test("leads through all steps and back, by keyboard, also on a page without jobs", async () => {
    const { user, close } = shown();
    const next = await screen.findByRole("button", { name: messages.tour.next });
    await vi.waitFor(() => expect(next).toHaveFocus());
    for (const { title } of Object.values(messages.tour.steps)) {
      expect(screen.getByRole("heading", { name: title })).toBeInTheDocument();
      expect(close).not.toHaveBeenCalled();
      expect(next).toHaveFocus();
      await user.keyboard("{Enter}");
    }
    expect(close).toHaveBeenCalledOnce();
    await user.click(screen.getByRole("button", { name: messages.tour.back }));
    expect(screen.getByText(messages.tour.progress(4, 5))).toBeInTheDocument();
  });

  test("is skipped with Escape or its button", async () => {
    const { user, close } = shown();
    await user.click(await screen.findByRole("button", { name: messages.tour.skip }));
    await user.keyboard("{Escape}");
    expect(close.mock.calls).toEqual([[true], [true]]);
  });

  test("ends where a person uses what it points to, and leaves the focus there", async () => {
    const { user, close } = shown(
      <button type="button" data-create-link>
        Create Job
      </button>,
    );
    await user.click(await screen.findByRole("button", { name: messages.tour.next }));
    await user.click(screen.getByRole("button", { name: "Create Job" }));
    expect(close.mock.calls).toEqual([[false]]);
  });
});
