// Builds the host and serves it as ODH Dashboard's back end does: `/_mf/NAME` leads to the remote's service, which has its
// files, and the paths of its `proxy` to the service's API, both with the person's token.

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { request as httpsRequest } from "node:https";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { type Configuration, rspack } from "@rspack/core";
import { cluster } from "../stage";

type Federation = {
  name: string;
  remoteEntry: string;
  proxy: { path: string; pathRewrite: string }[];
};

const root = join(import.meta.dirname, "../..");
const federation: Federation = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))["module-federation"];
const types: Record<string, string> = { ".js": "text/javascript", ".css": "text/css" };
const require = createRequire(import.meta.url);

/** Returns the host's address, and what ends it. */
export async function startHost(built: string): Promise<{ at: string; stop: () => Promise<void> }> {
  await build(built);
  const server = createServer((request, response) => answer(built, request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { at: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, stop };
}

function answer(built: string, request: IncomingMessage, response: ServerResponse): void {
  const path = request.url ?? "/";
  const files = `/_mf/${federation.name}/`;
  if (path.startsWith(files)) {
    pass(request, response, cluster.service.url + path.slice(files.length - 1));
    return;
  }
  const proxy = federation.proxy.find((one) => path === one.path || path.startsWith(`${one.path}/`));
  if (proxy) {
    pass(request, response, cluster.service.url + proxy.pathRewrite + path.slice(proxy.path.length));
    return;
  }
  const type = types[extname(path)];
  response.writeHead(200, { "content-type": type ?? "text/html; charset=utf-8" });
  response.end(type ? readFileSync(join(built, path)) : page());
}

function pass(request: IncomingMessage, response: ServerResponse, address: string): void {
  const headers = { ...request.headers, host: new URL(address).host };
  // A test that is another person sends a token of its own.
  headers.authorization ??= `Bearer ${readFileSync(cluster.service.token, "utf8").trim()}`;
  const ca = readFileSync(cluster.service.certificateAuthority);
  const onward = httpsRequest(address, { method: request.method, headers, ca }, (answered) => {
    response.writeHead(answered.statusCode ?? 502, answered.headers);
    answered.pipe(response);
  });
  onward.on("error", () => response.destroy());
  response.on("close", () => onward.destroy());
  request.pipe(onward);
}

function page(): string {
  const remotes = JSON.stringify([{ name: federation.name, remoteEntry: federation.remoteEntry }]);
  return `<!doctype html>
<html lang="en">
  <head>
    <title>The host</title>
    <link rel="icon" href="data:," />
    <link rel="stylesheet" href="/host.css" />
    <script id="mf-remotes-json" type="application/json">${remotes}</script>
    <script defer src="/host.js"></script>
  </head>
  <body><div id="root"></div></body>
</html>`;
}

/** With PatternFly in the version that ODH Dashboard has, and shared as there. */
function build(path: string): Promise<void> {
  const patternFly = require("patternfly-6.5/package.json").version;
  const eager = { singleton: true, eager: true };
  const configuration: Configuration = {
    mode: "production",
    context: root,
    target: ["web", "es2022"],
    entry: { host: "./e2e/host/index.ts" },
    devtool: false,
    optimization: { minimize: false },
    performance: { hints: false },
    output: { path, publicPath: "/", uniqueName: "host", filename: "[name].js", cssFilename: "[name].css" },
    resolve: {
      extensions: [".tsx", ".ts", ".mjs", ".js"],
      alias: { "@patternfly/react-core": require.resolve("patternfly-6.5/package.json").replace("/package.json", "") },
    },
    module: {
      rules: [
        {
          test: /\.tsx?$/,
          loader: "builtin:swc-loader",
          options: {
            jsc: { parser: { syntax: "typescript", tsx: true }, transform: { react: { runtime: "automatic" } } },
          },
        },
        { test: /\.css$/, type: "css/auto" },
      ],
    },
    plugins: [
      // By this, `init` of the runtime finds the instance that the bundler made, with what that shares.
      new rspack.DefinePlugin({ FEDERATION_BUILD_IDENTIFIER: JSON.stringify("host:0") }),
      new rspack.container.ModuleFederationPlugin({
        name: "host",
        filename: "remoteEntry.js",
        shared: {
          react: eager,
          "react-dom": eager,
          "react-router": eager,
          "react-router-dom": eager,
          "@patternfly/react-core": { ...eager, version: patternFly, requiredVersion: patternFly },
          "@patternfly/react-table": { singleton: true },
        },
      }),
    ],
  };
  return new Promise((resolve, reject) => {
    rspack(configuration, (error, stats) => {
      if (error || !stats || stats.hasErrors()) reject(error ?? new Error(stats?.toString("errors-only")));
      else resolve();
    });
  });
}
