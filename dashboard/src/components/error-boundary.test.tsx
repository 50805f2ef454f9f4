import { render, screen } from "@testing-library/react";
import { lazy, Suspense } from "react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ErrorBoundary } from "./error-boundary";

// React reports what a boundary catches.
beforeEach(() => void vi.spyOn(console, "error").mockImplementation(() => {}));
afterEach(() => void vi.restoreAllMocks());

/** As another dashboard shows a page: its code is fetched when it is first shown. */
function show(error: Error) {
  const Page = lazy(() => Promise.reject(error));
  render(
    <ErrorBoundary>
      <Suspense>
        <Page />
      </Suspense>
    </ErrorBoundary>,
  );
}

test.each([
  new TypeError("Failed to fetch dynamically imported module: /assets/page-1.js"),
  new Error("Unable to preload CSS for /assets/page-1.css"),
  Object.assign(new Error("Loading chunk 12 failed."), { name: "ChunkLoadError" }),
])("a page whose code cannot be fetched offers to reload, without the error: %s", async (error) => {
  show(error);
  await screen.findByRole("heading", { name: "The page could not be loaded" });
  screen.getByRole("button", { name: "Reload the page" });
  expect(screen.queryByText(error.message, { exact: false })).toBeNull();
});

test("any other error of a page is shown with its text", async () => {
  show(new Error("x is undefined"));
  await screen.findByRole("heading", { name: "The page has an error" });
  screen.getByText("Error: x is undefined");
});
