// The route table. Every page is a part of its own, loaded when it is first shown.

import type { RouteObject } from "react-router-dom";
import { Navigate } from "react-router-dom";
import { NotFoundPage } from "./components/not-found";
import { PageNotLoaded } from "./components/page-not-loaded";
import { LoadingLines } from "./components/states";
import { pages } from "./pages";
import { Shell } from "./shell/shell";

export const routes: RouteObject[] = [
  {
    path: "/",
    element: <Shell />,
    HydrateFallback: LoadingLines,
    children: [
      {
        // A page that cannot be loaded leaves the frame and its navigation as they are.
        errorElement: <PageNotLoaded />,
        children: [
          { index: true, element: <Navigate to="/jobs" replace /> },
          ...pages.map(({ id, path, load }) => ({ id, path, lazy: load })),
          { id: "not-found", path: "*", element: <NotFoundPage /> },
        ],
      },
    ],
  },
];
