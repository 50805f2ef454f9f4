import { defineConfig } from "vitest/config";

// Figures, for `bench/dashboard/run.py`. The tests do not run them: they need an idle machine.
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.measure.ts"],
    globalSetup: ["./cluster.ts"],
    environment: "node",
    testTimeout: 400_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 20_000 } },
  },
});
