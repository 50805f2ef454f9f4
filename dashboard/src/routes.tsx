// The route table. Every page is a part of its own, loaded when it is first shown.

import type { RouteObject } from "react-router-dom";
import { Navigate } from "react-router-dom";
import { NotFoundPage } from "./components/not-found";
import { LoadingLines } from "./components/states";
import { Shell } from "./shell/shell";

export const routes: RouteObject[] = [
  {
    path: "/",
    element: <Shell />,
    HydrateFallback: LoadingLines,
    children: [
      { index: true, element: <Navigate to="/jobs" replace /> },
      { id: "jobs", path: "jobs", lazy: async () => ({ Component: (await import("./jobs/page")).JobsPage }) },
      {
        id: "job",
        path: "jobs/:namespace/:kind/:name/*",
        lazy: async () => ({ Component: (await import("./job/page")).JobPage }),
      },
      { id: "create", path: "create/*", lazy: async () => ({ Component: (await import("./create/page")).CreatePage }) },
      {
        id: "compare",
        path: "compare",
        lazy: async () => ({ Component: (await import("./compare/page")).ComparePage }),
      },
      {
        id: "templates",
        path: "templates",
        lazy: async () => ({ Component: (await import("./templates/page")).TemplatesPage }),
      },
      {
        id: "notifications",
        path: "notifications",
        lazy: async () => ({ Component: (await import("./notifications/page")).NotificationsPage }),
      },
      { id: "admin", path: "admin/*", lazy: async () => ({ Component: (await import("./admin/page")).AdminPage }) },
      { id: "not-found", path: "*", element: <NotFoundPage /> },
    ],
  },
];
