// Builds the pages as a federated remote of ODH Dashboard into `dist/remote`. The service carries them with its own pages.
//
// The name, the files' place and the API's path are in `package.json`, where ODH Dashboard reads them too. ODH Dashboard's
// loader runs `remoteEntry.js` as a script, so the container is a global variable of the remote's name.

import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { rspack } from "@rspack/core";

const root = join(import.meta.dirname, "..");
const { "module-federation": federation } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const [api] = federation.proxy;

// The host has exactly one of each; a second copy would have contexts of its own.
const ofTheHost = (requiredVersion) => ({ singleton: true, import: false, requiredVersion });

/** @type {import("@rspack/core").Configuration} */
const configuration = {
  mode: "production",
  context: root,
  target: ["web", "es2022"],
  entry: {},
  devtool: false,
  output: {
    path: join(root, "dist", dirname(federation.remoteEntry)),
    // Beside `remoteEntry.js`, wherever the host has that from.
    publicPath: "auto",
    uniqueName: federation.name,
    filename: "[name]-[contenthash:8].js",
    cssFilename: "[name]-[contenthash:8].css",
    clean: true,
  },
  resolve: { extensions: [".tsx", ".ts", ".mjs", ".js"] },
  module: {
    rules: [
      {
        test: /\.tsx?$/,
        loader: "builtin:swc-loader",
        options: {
          jsc: { parser: { syntax: "typescript", tsx: true }, transform: { react: { runtime: "automatic" } } },
        },
        type: "javascript/auto",
      },
      { test: /\.css$/, type: "css/auto" },
    ],
  },
  plugins: [
    new rspack.DefinePlugin({
      "import.meta.env.VITE_SERVICE_ROOT": JSON.stringify(api.path.slice(0, api.path.length - api.pathRewrite.length)),
    }),
    new rspack.container.ModuleFederationPlugin({
      name: federation.name,
      filename: "remoteEntry.js",
      exposes: { "./extensions": "./src/remote/extensions.ts" },
      shared: {
        react: ofTheHost("^18.3.1 || ^19"),
        "react-dom": ofTheHost("^18.3.1 || ^19"),
        "react-router": ofTheHost("^7"),
        "react-router-dom": ofTheHost("^7"),
        "@patternfly/react-core": ofTheHost("^6.5.0"),
        // Bundled here, it would bring parts of `react-core` with it, and their styles in another version. Icons are imported
        // one by one: shared, they would all be loaded.
        "@patternfly/react-table": ofTheHost("^6.5.0"),
      },
    }),
  ],
  // A remote's chunks are loaded as its pages are opened.
  performance: { hints: false },
};

rspack(configuration, (error, stats) => {
  const report = stats?.toJson({ all: false, errors: true, warnings: true, assets: true });
  for (const { message } of [...(report?.errors ?? []), ...(report?.warnings ?? [])]) console.error(message);
  if (error) console.error(error);
  if (error || !stats || stats.hasErrors() || stats.hasWarnings()) process.exit(1);
  const bytes = report.assets.reduce((sum, { size }) => sum + size, 0);
  console.log(`remote: ${report.assets.length} files, ${(bytes / 1024).toFixed(0)} KB`);
});
