import { act, render, screen } from "@testing-library/react";
import { createMemoryRouter, Outlet, RouterProvider } from "react-router-dom";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Pending, pendingDelay } from "./pending";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function Admin() {
  return "admin";
}

function show() {
  let arrive = () => {};
  const load = new Promise<{ Component: () => string }>((resolve) => {
    arrive = () => resolve({ Component: Admin });
  });
  const frame = (
    <>
      <Pending />
      <Outlet />
    </>
  );
  const children = [
    { path: "/jobs", element: "jobs" },
    { path: "/admin", lazy: () => load },
  ];
  const router = createMemoryRouter([{ element: frame, children }], { initialEntries: ["/jobs"] });
  render(<RouterProvider router={router} />);
  act(() => void router.navigate("/admin"));
  return {
    arrive: () => act(async () => arrive()),
    wait: (milliseconds: number) => act(() => vi.advanceTimersByTimeAsync(milliseconds)),
  };
}

const status = () => screen.getByRole("status").textContent;

test("a page that takes a while is announced until it is there", async () => {
  const page = show();
  await page.wait(pendingDelay - 1);
  expect(status()).toBe("");
  await page.wait(1);
  expect(status()).toBe("Loading the page");
  screen.getByText("jobs");
  await page.arrive();
  screen.getByText("admin");
  expect(status()).toBe("");
});

test("a page that is there at once is not", async () => {
  const page = show();
  await page.wait(pendingDelay - 1);
  await page.arrive();
  await page.wait(pendingDelay);
  expect(status()).toBe("");
});
