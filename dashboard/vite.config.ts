/// <reference types="vitest/config" />
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { serviceProxy } from "./service-proxy.ts";

// What the service sends with each page; the preview server sends it too, so that tests run under it.
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join("; ");

// `npm run build:react-19`: the same pages with the next React, to see that they need no particular one.
const react19 = [
  { find: /^react(?=$|\/)/, replacement: "react-19" },
  { find: /^react-dom(?=$|\/)/, replacement: "react-dom-19" },
];

export default defineConfig(({ mode }) => ({
  plugins: [react()],
  resolve: { alias: mode === "react-19" ? react19 : [] },
  server: { host: "127.0.0.1", proxy: mode === "test" ? {} : serviceProxy() },
  preview: {
    host: "127.0.0.1",
    proxy: mode === "test" ? {} : serviceProxy(),
    headers: { "content-security-policy": contentSecurityPolicy },
  },
  build: {
    target: "es2022",
    // The service fills in the form of the second.
    rollupOptions: { input: ["index.html", "signin.html"] },
    manifest: true,
    // `npm run build` checks a budget of its own, in the bytes that travel.
    chunkSizeWarningLimit: 2000,
    // Inlined files would be `data:` addresses, which the policy forbids for fonts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: {
    environment: "happy-dom",
    include: ["src/**/*.test.{ts,tsx}"],
    setupFiles: ["./src/test-setup.ts"],
    css: false,
  },
}));
