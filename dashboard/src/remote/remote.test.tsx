import { readFileSync } from "node:fs";
import { join } from "node:path";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createMemoryRouter, Link, RouterProvider, useLocation, useNavigate, useRoutes } from "react-router-dom";
import { describe, expect, test } from "vitest";
import extensions from "./extensions";
import { HostedRouter } from "./hosted-router";
import { place } from "./place";

const root = join(import.meta.dirname, "../..");

describe("the extensions", () => {
  test("need only the area that they add", () => {
    const areas = extensions.flatMap((one) => (one.type === "app.area" ? [one.properties.id] : []));
    for (const one of extensions) if ("flags" in one) expect(areas).toEqual(one.flags.required);
  });

  test("are configured in the guide as in package.json", () => {
    const guide = readFileSync(join(root, "../docs/guides/odh-dashboard.md"), "utf8");
    const [, configuration = ""] = /```json\n(.*?)```/s.exec(guide) ?? [];
    const federation = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))["module-federation"];
    expect(JSON.parse(configuration)).toEqual(federation);
  });
});

function Page() {
  const { pathname, search } = useLocation();
  const navigate = useNavigate();
  return (
    <>
      <p>
        page {pathname}
        {search}
      </p>
      <Link to="/jobs?phase=Failed">absolute</Link>
      <Link to="logs">relative</Link>
      <button type="button" onClick={() => void navigate("/create", { replace: true })}>
        replace
      </button>
    </>
  );
}

function Pages() {
  return useRoutes([
    { path: "/jobs/*", element: <Page /> },
    { path: "*", element: <Page /> },
  ]);
}

/** A host whose own pages are below `/host`. */
function show(at: string) {
  const pages = (
    <HostedRouter place={place}>
      <Pages />
    </HostedRouter>
  );
  const router = createMemoryRouter([{ path: `${place}/*`, element: pages }], {
    basename: "/host",
    initialEntries: [`/host${place}${at}`],
  });
  render(<RouterProvider router={router} />);
  return { router, pathname: () => router.state.location.pathname, user: userEvent.setup() };
}

describe("a router within the host's", () => {
  test("shows pages the path below its place, and links to the whole one", () => {
    show("/jobs/team");
    screen.getByText("page /jobs/team");
    expect(screen.getByText("absolute").getAttribute("href")).toBe(`/host${place}/jobs?phase=Failed`);
    expect(screen.getByText("relative").getAttribute("href")).toBe(`/host${place}/jobs/team/logs`);
  });

  test("navigates by the host's history, once", async () => {
    const { router, pathname, user } = show("/jobs/team");
    await user.click(screen.getByText("absolute"));
    screen.getByText("page /jobs?phase=Failed");
    expect(pathname()).toBe(`/host${place}/jobs`);
    await user.click(screen.getByText("replace"));
    screen.getByText("page /create");
    expect(pathname()).toBe(`/host${place}/create`);
    await router.navigate(-1);
    await screen.findByText("page /jobs/team");
  });

  test("follows the host's own links", async () => {
    const { router } = show("/jobs/team");
    await router.navigate(`${place}/templates`);
    await screen.findByText("page /templates");
  });
});
