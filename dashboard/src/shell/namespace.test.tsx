import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { createMemoryRouter, Link, RouterProvider } from "react-router-dom";
import { beforeEach, test } from "vitest";
import { keys } from "../api/cache";
import { rememberNamespaceOfNew, useKnownNamespaces, useNamespace, useNamespacesOfNew } from "./namespace";

beforeEach(() => localStorage.clear());

function Page() {
  const [namespace] = useNamespace();
  const known = useKnownNamespaces();
  const [ofNew] = useNamespacesOfNew("mpijob");
  return (
    <>
      <p>at: {namespace || "all"}</p>
      <p>known: {known.join()}</p>
      <p>new in: {ofNew || "none"}</p>
      <Link to="/jobs">jobs</Link>
    </>
  );
}

/** Opens an address in a tab of its own. */
async function open(address: string, listed: string[] = [], partial = false) {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  queries.setQueryData(keys.namespaces, { namespaces: [] });
  queries.setQueryData(keys.namespacesOfNew("mpijob"), { namespaces: listed.map((name) => ({ name })), partial });
  const router = createMemoryRouter(
    [
      { path: "/jobs", element: <Page /> },
      { path: "/jobs/:namespace/:kind/:name", element: <Page /> },
    ],
    { initialEntries: [address] },
  );
  const { unmount } = render(
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
  return {
    close: unmount,
    toJobs: () => userEvent.click(screen.getByRole("link", { name: "jobs" })),
  };
}

test("the namespace of an address is that of the next pages, and can be chosen later", async () => {
  const page = await open("/jobs?namespace=team");
  await page.toJobs();
  screen.getByText("at: team");
  screen.getByText("known: team");
});

test("a job's address chooses its namespace, unless all are chosen", async () => {
  const job = await open("/jobs/team/mpijob/a");
  await job.toJobs();
  screen.getByText("at: team");
  job.close();
  (await open("/jobs?namespace=")).close();
  const other = await open("/jobs/team/mpijob/a");
  screen.getByText("at: team");
  await other.toJobs();
  screen.getByText("at: all");
});

test("a value that is not a namespace is not remembered", async () => {
  const page = await open("/jobs?namespace=No%20Namespace");
  await page.toJobs();
  screen.getByText("at: all");
});

test("a job is created in the only namespace in which the person may do that, unless another one is chosen", async () => {
  const page = await open("/jobs?namespace=", ["team"]);
  screen.getByText("new in: team");
  page.close();
  const chosen = await open("/jobs?namespace=other", ["team"]);
  screen.getByText("new in: other");
  chosen.close();
});

test("of several namespaces, the one of the last job is proposed, as long as the person may use it", async () => {
  const first = await open("/jobs?namespace=", ["team", "other"]);
  screen.getByText("new in: none");
  first.close();
  rememberNamespaceOfNew("other");
  const next = await open("/jobs?namespace=", ["team", "other"]);
  screen.getByText("new in: other");
  next.close();
  const refused = await open("/jobs?namespace=", ["team", "third"]);
  screen.getByText("new in: none");
  refused.close();
  await open("/jobs?namespace=", ["team"], true);
  screen.getByText("new in: other");
});

test("a list that is not whole does not choose its only namespace", async () => {
  await open("/jobs?namespace=", ["team"], true);
  screen.getByText("new in: none");
});
