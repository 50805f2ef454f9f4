import { defineConfig } from "vitest/config";

// The tests share one cluster and one machine: files run one after another.
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.e2e.ts"],
    globalSetup: ["./cluster.ts"],
    environment: "node",
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 60_000,
    maxConcurrency: 1,
    expect: { poll: { timeout: 20_000 } },
  },
});
