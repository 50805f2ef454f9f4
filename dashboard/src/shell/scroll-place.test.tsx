import { act, render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createMemoryRouter, Link, Outlet, RouterProvider } from "react-router-dom";
import { expect, test } from "vitest";
import { mainId } from "./main-element";
import { useScrollPlace } from "./scroll-place";

/** As long as the page has rows: nothing has a height in these tests. */
function Frame() {
  useScrollPlace();
  return (
    <main
      id={mainId}
      ref={(main) => {
        const get = () => (main?.querySelectorAll("li").length ?? 0) * 100;
        if (main) Object.defineProperty(main, "scrollHeight", { get, configurable: true });
      }}
    >
      <Outlet />
    </main>
  );
}

const rows = [..."abcdefghijklmnopqrst"].map((row) => <li key={row}>{row}</li>);
const list = (
  <>
    <ul>{rows}</ul>
    <Link to="/job">job</Link>
  </>
);

test("back leads to the place in the list, and a new page begins at its top", async () => {
  const routes = [
    {
      element: <Frame />,
      children: [
        { path: "/jobs", element: list },
        { path: "/job", element: <Link to="/jobs">jobs</Link> },
      ],
    },
  ];
  const router = createMemoryRouter(routes, { initialEntries: ["/jobs"] });
  render(<RouterProvider router={router} />);
  const main = screen.getByRole("main");
  main.scrollTop = 700;
  main.dispatchEvent(new Event("scroll"));
  await userEvent.click(screen.getByRole("link", { name: "job" }));
  main.scrollTop = 0;
  main.dispatchEvent(new Event("scroll"));
  await act(() => router.navigate(-1));
  await expect.poll(() => main.scrollTop).toBe(700);
  await act(() => router.navigate(1));
  main.scrollTop = 0;
  await userEvent.click(screen.getByRole("link", { name: "jobs" }));
  expect(main.scrollTop, "it is another visit").toBe(0);
});
