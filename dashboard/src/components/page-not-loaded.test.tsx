import { render, screen } from "@testing-library/react";
import { createMemoryRouter, Outlet, RouterProvider } from "react-router-dom";
import { expect, test } from "vitest";
import { PageNotLoaded } from "./page-not-loaded";

function Loading() {
  return null;
}

function show(error: Error) {
  const router = createMemoryRouter([
    {
      path: "/",
      HydrateFallback: Loading,
      element: (
        <>
          <nav>navigation</nav>
          <Outlet />
        </>
      ),
      children: [
        {
          errorElement: <PageNotLoaded />,
          children: [
            {
              index: true,
              lazy: async () => {
                throw error;
              },
            },
          ],
        },
      ],
    },
  ]);
  render(<RouterProvider router={router} />);
}

test("a page whose code cannot be fetched leaves the navigation, and offers to reload", async () => {
  show(new TypeError("Failed to fetch dynamically imported module: /assets/page-1.js"));
  expect(await screen.findByRole("heading", { name: "The page could not be loaded" })).toBeTruthy();
  expect(screen.getByText("navigation")).toBeTruthy();
  expect(screen.getByRole("button", { name: "Reload the page" })).toBeTruthy();
});

test("any other error of a page is shown as one of the page", async () => {
  show(new Error("x is undefined"));
  expect(await screen.findByRole("heading", { name: "The page has an error" })).toBeTruthy();
});
