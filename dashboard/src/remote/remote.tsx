// All pages, as one component within ODH Dashboard: its address, its theme and its frame are the host's.

import "../app.css";
import { type ComponentType, lazy, Suspense } from "react";
import { Navigate, useRoutes } from "react-router-dom";
import { ErrorBoundary } from "../components/error-boundary";
import { NotFoundPage } from "../components/not-found";
import { LoadingLines } from "../components/states";
import { pages } from "../pages";
import { Providers } from "../providers";
import { Frame } from "./frame";
import { HostedRouter } from "./hosted-router";
import { place } from "./place";

const routes = [
  {
    path: "/",
    element: <Frame />,
    children: [
      { index: true, element: <Navigate to="/jobs" replace /> },
      ...pages.map(({ id, path, load }) => {
        const Page = lazy(async () => ({ default: (await load()).Component }));
        return { path, element: <Contained key={id} page={Page} /> };
      }),
      { path: "*", element: <NotFoundPage /> },
    ],
  },
];

// A host that loads this module renders its default export.
export default function Remote() {
  return (
    <Providers>
      <HostedRouter place={place}>
        <Pages />
      </HostedRouter>
    </Providers>
  );
}

function Pages() {
  return useRoutes(routes);
}

function Contained({ page: Page }: { page: ComponentType }) {
  return (
    <ErrorBoundary>
      <Suspense fallback={<LoadingLines />}>
        <Page />
      </Suspense>
    </ErrorBoundary>
  );
}
