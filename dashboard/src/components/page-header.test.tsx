import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createMemoryRouter, Link, RouterProvider } from "react-router-dom";
import { expect, test } from "vitest";
import { PageHeader } from "./page-header";

test("focus moves to the title of a page that a link leads to, and not on the first load", async () => {
  const first = (
    <main>
      <PageHeader title="First" />
      <Link to="/second">on</Link>
    </main>
  );
  const routes = [
    { path: "/first", element: first },
    { path: "/second", element: <PageHeader title="Second" /> },
  ];
  render(<RouterProvider router={createMemoryRouter(routes, { initialEntries: ["/first"] })} />);
  expect(screen.getByRole("heading", { name: "First" })).not.toHaveFocus();
  await userEvent.click(screen.getByRole("link", { name: "on" }));
  expect(await screen.findByRole("heading", { name: "Second" })).toHaveFocus();
  expect(document.title).toContain("Second");
});
