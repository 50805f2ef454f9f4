// The providers around all pages.

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { LiveProvider } from "./api/live";
import { isTemporary } from "./api/problem";
import { ToastProvider } from "./components/toasts";

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

/** What every page uses, in whatever frame it is shown. */
export function Providers({ children }: { children: ReactNode }) {
  return (
    <QueryClientProvider client={queries}>
      <LiveProvider>
        <ToastProvider>{children}</ToastProvider>
      </LiveProvider>
    </QueryClientProvider>
  );
}
