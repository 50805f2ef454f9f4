// All pages, with their paths. The dashboard's own frame shows them, and that of another dashboard (`remote/`).

import type { ComponentType } from "react";

type Page = { id: string; path: string; load: () => Promise<{ Component: ComponentType }> };

export const pages: Page[] = [
  { id: "jobs", path: "jobs", load: async () => ({ Component: (await import("./jobs/page")).JobsPage }) },
  {
    id: "job",
    path: "jobs/:namespace/:kind/:name/*",
    load: async () => ({ Component: (await import("./job/page")).JobPage }),
  },
  { id: "create", path: "create/*", load: async () => ({ Component: (await import("./create/page")).CreatePage }) },
  { id: "compare", path: "compare", load: async () => ({ Component: (await import("./compare/page")).ComparePage }) },
  {
    id: "templates",
    path: "templates",
    load: async () => ({ Component: (await import("./templates/page")).TemplatesPage }),
  },
  {
    id: "notifications",
    path: "notifications",
    load: async () => ({ Component: (await import("./notifications/page")).NotificationsPage }),
  },
  { id: "admin", path: "admin/*", load: async () => ({ Component: (await import("./admin/page")).AdminPage }) },
];
