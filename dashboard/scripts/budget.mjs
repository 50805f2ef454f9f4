// Fails if the first load needs more JavaScript than 260 KB, compressed: the entry and everything that it imports.

import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const budgetBytes = 260 * 1024;
const manifest = JSON.parse(readFileSync("dist/.vite/manifest.json", "utf8"));
const sizeOf = (file) => gzipSync(readFileSync(`dist/${file}`)).length;

const seen = new Set();
const visit = (name) => {
  if (seen.has(name)) return;
  seen.add(name);
  for (const imported of manifest[name].imports ?? []) visit(imported);
};
for (const [name, chunk] of Object.entries(manifest)) if (chunk.isEntry && name === "index.html") visit(name);
// The first page is the list of jobs: its part is loaded at once too.
for (const [name, chunk] of Object.entries(manifest)) if (chunk.src === "src/jobs/page.tsx") visit(name);

const scripts = [...seen].map((name) => manifest[name].file);
const styles = [...new Set([...seen].flatMap((name) => manifest[name].css ?? []))];
const sum = (files) => files.reduce((total, file) => total + sizeOf(file), 0);
const kilobytes = (bytes) => `${(bytes / 1024).toFixed(1)} KB`;
console.log(
  `first load: ${kilobytes(sum(scripts))} of JavaScript in ${scripts.length} files, ${kilobytes(sum(styles))} of CSS`,
);
if (sum(scripts) > budgetBytes) {
  console.error(`the budget for JavaScript is ${kilobytes(budgetBytes)}; load a part lazily, or drop it`);
  process.exit(1);
}
