// The application: providers around the route table.

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createBrowserRouter, RouterProvider } from "react-router-dom";
import { LiveProvider } from "./api/live";
import { isTemporary } from "./api/problem";
import { ToastProvider } from "./components/toasts";
import { routes } from "./routes";

const mostRetries = 2;

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2_000,
      // Only what may succeed the next time is asked again.
      retry: (count, error) => count < mostRetries && isTemporary(error),
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

const router = createBrowserRouter(routes);

export function App() {
  return (
    <QueryClientProvider client={queries}>
      <LiveProvider>
        <ToastProvider>
          <RouterProvider router={router} />
        </ToastProvider>
      </LiveProvider>
    </QueryClientProvider>
  );
}
