// The one model of the form and the YAML editor: the text of a manifest. The form reads values from it and writes single
// values into it; comments, order and everything that the form does not know stay as they are.

import { type Document, isMap, isScalar, isSeq, parseDocument } from "yaml";
import { type Kind, kinds } from "../api/client";
import { parseQuantity } from "../format/quantity";
import builder from "./builder.json";
import { joinCommand, splitCommand } from "./command";
import { type Path, type Shape, shapes } from "./shapes";

export type Pair = { name: string; value: string };
export type Toleration = { key: string; value: string; effect: string };

export type Fault = { message: string; line: number; column: number };

export type Manifest = { document: Document; shape: Shape } | { fault: Fault } | { unknown: string };

const noPretty = { lineWidth: 0, flowCollectionPadding: false } as const;

/** Reads a text: a manifest of a kind that the form knows, one of another kind, or no YAML. */
export function readManifest(text: string): Manifest {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error) {
    const { line = 1, col = 1 } = error.linePos?.[0] ?? {};
    return { fault: { message: error.message.split("\n")[0] ?? "", line, column: col } };
  }
  const kind = String(isMap(document.contents) ? (document.get("kind") ?? "") : "");
  const known = kinds.find((one) => one === kind.toLowerCase());
  return known ? { document, shape: shapes[known] } : { unknown: kind };
}

export function kindOfManifest(text: string): Kind | undefined {
  const manifest = readManifest(text);
  return "shape" in manifest ? manifest.shape.kind : undefined;
}

/** The manifest with values written at paths; `undefined` removes, and with it the maps that this leaves empty. */
export function write(text: string, changes: readonly [Path, unknown][]): string {
  const document = parseDocument(text);
  if (document.errors.length) return text;
  for (const [path, value] of changes) writeOne(document, path, value);
  return document.toString(noPretty);
}

function writeOne(document: Document, path: Path, value: unknown): void {
  if (value === undefined) {
    remove(document, path);
    return;
  }
  clearWay(document, path);
  const present = document.getIn(path, true);
  // A scalar keeps its comment and, where the type stays, its quotes.
  if (isScalar(present) && typeof value !== "object") present.value = value;
  else document.setIn(path, document.createNode(value, { flow: isSeq(present) ? present.flow : false }));
}

/** Removes values that are neither a map nor a list where the path needs one: `limits:` without a value, for example. */
function clearWay(document: Document, path: Path): void {
  for (let length = 1; length < path.length; length++) {
    const node = document.getIn(path.slice(0, length), true);
    if (node !== undefined && !isMap(node) && !isSeq(node)) document.deleteIn(path.slice(0, length));
    // A map in one line, `{}`, becomes one in lines, unless it had content.
    if (isMap(node) && node.flow && !node.items.length) node.flow = false;
  }
}

function remove(document: Document, path: Path): void {
  if (!document.hasIn(path)) return;
  document.deleteIn(path);
  for (let length = path.length - 1; length > 1; length--) {
    const parent = document.getIn(path.slice(0, length), true);
    if (!(isMap(parent) || isSeq(parent)) || parent.items.length) return;
    document.deleteIn(path.slice(0, length));
  }
}

/** The value at a path as plain data. */
export function read(document: Document, path: Path): unknown {
  const node = document.getIn(path, true);
  if (isScalar(node)) return node.value;
  return isMap(node) || isSeq(node) ? node.toJSON() : undefined;
}

export function readText(document: Document, path: Path): string {
  const value = read(document, path);
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : "";
}

export function readNumber(document: Document, path: Path | undefined): number | undefined {
  const value = path ? read(document, path) : undefined;
  return typeof value === "number" ? value : undefined;
}

function readWords(document: Document, path: Path): string[] {
  const value = read(document, path);
  return Array.isArray(value) ? value.map(String) : [];
}

// The command ------------------------------------------------------------------------------------------------------

export type Command = { text: string; everyRank: boolean };

/** The program that starts the ranks, with the options that the service's builder writes, is shown as a choice. */
export function readCommand(manifest: { document: Document; shape: Shape }): Command {
  const { document, shape } = manifest;
  const words = [...readWords(document, shape.command), ...readWords(document, shape.args)];
  const [starter = "", ...options] = words;
  if (shape.kind !== "mpijob" || !isStarter(starter)) return { text: joinCommand(words), everyRank: false };
  return { text: joinCommand(options.slice(optionsIn(document, options).length)), everyRank: true };
}

/** The options with which the words after a starter begin, as far as the builder writes them. */
function optionsIn(document: Document, words: readonly string[]): readonly string[] {
  const { tag, forward, count } = implementationOf(document);
  let length = 0;
  for (;;) {
    const word = words[length];
    if (word !== undefined && word === tag) length += 1;
    else if (length + 1 < words.length && (word === forward || word === count)) length += 2;
    else return words.slice(0, length);
  }
}

/** Keeps the number of ranks in the command, where the MPI needs one, what these changes make it. */
export function rankChanges(
  { document, shape }: { document: Document; shape: Shape },
  changes: readonly [Path, unknown][],
): [Path, unknown][] {
  const [starter = "", ...words] = readWords(document, shape.command);
  const { count } = implementationOf(document);
  const at = count === null ? -1 : optionsIn(document, words).indexOf(count);
  if (shape.kind !== "mpijob" || !isStarter(starter) || at < 0) return [];
  const number = (path: Path | undefined) => {
    const changed = changes.find(([to]) => path && to.join("/") === path.join("/"))?.[1];
    return typeof changed === "number" ? changed : (readNumber(document, path) ?? 1);
  };
  const ranks = String(number(shape.slots) * number(shape.workers));
  return words[at + 1] === ranks ? [] : [[[...shape.command, at + 2], ranks]];
}

export function commandChanges(
  manifest: { document: Document; shape: Shape },
  { text, everyRank }: Command,
  env: readonly Pair[],
): [Path, unknown][] {
  const { document, shape } = manifest;
  const words = splitCommand(text);
  const present = readWords(document, shape.command)[0] ?? "";
  const starter = isStarter(present) ? present : builder.starters[0];
  const command = everyRank && shape.kind === "mpijob" ? [starter, ...starterOptions(manifest, env), ...words] : words;
  return [
    [shape.command, command.length ? command : undefined],
    [shape.args, undefined],
  ];
}

function isStarter(word: string): boolean {
  return builder.starters.includes(word.split("/").pop() ?? "");
}

type Implementation = { tag: string; forward: string | null; count: string | null };

function implementationOf(document: Document): Implementation {
  const known: Record<string, Implementation> = builder.implementations;
  return known[readText(document, ["spec", "mpiImplementation"])] ?? builder.implementations.OpenMPI;
}

/** Variables that the service's builder gives to the Launcher alone, for the program that starts the ranks. */
const presets = new Set(
  builder.blanks.mpijob.spec.mpiReplicaSpecs.Launcher.template.spec.containers.flatMap(({ env }) =>
    env.map(({ name }) => name),
  ),
);

/** What the service's builder writes between the starter and the program. */
function starterOptions({ document, shape }: { document: Document; shape: Shape }, env: readonly Pair[]): string[] {
  const { tag, forward, count } = implementationOf(document);
  const passed = env.filter(({ name }) => name && !presets.has(name));
  const ranks = (readNumber(document, shape.slots) ?? 1) * (readNumber(document, shape.workers) ?? 1);
  return [
    tag,
    ...(forward ? passed.flatMap(({ name }) => [forward, name]) : []),
    ...(count ? [count, String(ranks)] : []),
  ];
}

// Resources --------------------------------------------------------------------------------------------------------

/** The name of the GPU resource that the manifest uses. */
export function gpuResource(document: Document, shape: Shape): string {
  const limits = read(document, [...shape.resources, "limits"]);
  const names = limits && typeof limits === "object" ? Object.keys(limits) : [];
  return names.find(isGpu) ?? builder.gpu.default;
}

function isGpu(name: string): boolean {
  return name.endsWith(builder.gpu.suffix) || builder.gpu.names.includes(name);
}

export function readResource(document: Document, shape: Shape, name: string): string {
  return (
    readText(document, [...shape.resources, "limits", name]) ||
    readText(document, [...shape.resources, "requests", name])
  );
}

/** Writes a limit. A request of its own would contradict it, except where the person wrote one that is smaller. */
export function resourceChanges(document: Document, path: Path, name: string, value: string): [Path, unknown][] {
  const limit: [Path, unknown] = [[...path, "limits", name], value === "" ? undefined : asQuantity(name, value)];
  const request = readText(document, [...path, "requests", name]);
  const smaller = (parseQuantity(request) ?? 0) <= (parseQuantity(value) ?? 0);
  return request && (value === "" || !smaller) ? [limit, [[...path, "requests", name], undefined]] : [limit];
}

/** Makes an amount the one that is requested; the limit stays if it is larger and the person wrote both. */
export function requestChanges(document: Document, path: Path, name: string, value: string): [Path, unknown][] {
  if (!readText(document, [...path, "requests", name])) return resourceChanges(document, path, name, value);
  const request: [Path, unknown] = [[...path, "requests", name], value];
  const limit = readText(document, [...path, "limits", name]);
  const isTooLow = limit && (parseQuantity(limit) ?? 0) < (parseQuantity(value) ?? 0);
  return isTooLow ? [request, [[...path, "limits", name], value]] : [request];
}

function asQuantity(name: string, value: string): string | number {
  return isGpu(name) && /^\d+$/.test(value) ? Number(value) : value;
}

export type Totals = { workers: number; gpus: number; cpu: number; memory: number };

/** What all Workers request together; values that are not quantities count as none. */
export function totals({ document, shape }: { document: Document; shape: Shape }): Totals {
  const workers = readNumber(document, shape.workers) ?? 0;
  const each = (name: string) => parseQuantity(readResource(document, shape, name)) ?? 0;
  return {
    workers,
    gpus: workers * each(gpuResource(document, shape)),
    cpu: workers * each("cpu"),
    memory: workers * each("memory"),
  };
}

/** GPUs per Worker; an MPIJob gets a rank for each, unless the person chose another number of ranks. */
export function gpuChanges(document: Document, shape: Shape, value: string): [Path, unknown][] {
  const name = gpuResource(document, shape);
  const before = Number(readResource(document, shape, name) || 0);
  const changes = resourceChanges(document, shape.resources, name, value === "0" ? "" : value);
  const slots = readNumber(document, shape.slots);
  const follows = shape.slots && (slots === undefined || slots === Math.max(1, before));
  if (shape.slots && follows && /^\d+$/.test(value)) changes.push([shape.slots, Math.max(1, Number(value))]);
  return changes;
}

// Lists ------------------------------------------------------------------------------------------------------------

type Named = { name?: unknown; value?: unknown };

/** The variables that have a plain value, without the builder's own. */
export function readEnv({ document, shape }: { document: Document; shape: Shape }): Pair[] {
  const list = read(document, shape.env[0] ?? []);
  if (!Array.isArray(list)) return [];
  return list
    .filter((one: Named) => one && !("valueFrom" in one) && !presets.has(String(one.name)))
    .map((one: Named) => ({ name: String(one.name ?? ""), value: String(one.value ?? "") }));
}

export function envChanges(
  { document, shape }: { document: Document; shape: Shape },
  pairs: readonly Pair[],
): [Path, unknown][] {
  const known = new Set(readEnv({ document, shape }).map(({ name }) => name));
  const changes = shape.env
    .filter((path) => document.hasIn(path.slice(0, -1)))
    .map((path): [Path, unknown] => {
      const present = read(document, path);
      // What the form does not show stays: values from secrets, and variables of only one role.
      const others = (Array.isArray(present) ? present : []).filter(
        (one: Named & object) => "valueFrom" in one || !known.has(String(one.name ?? "")),
      );
      const isPreset = (one: Named) => presets.has(String(one.name));
      const list = [...others.filter(isPreset), ...pairs, ...others.filter((one: Named) => !isPreset(one))];
      return [path, list.length ? list : undefined];
    });
  return [...changes, ...commandChanges({ document, shape }, readCommand({ document, shape }), pairs)];
}

type Volume = { name?: string; persistentVolumeClaim?: { claimName?: string } };
type Mount = { name?: string; mountPath?: string };

/** Claims and where they are mounted. */
export function readVolumes({ document, shape }: { document: Document; shape: Shape }): Pair[] {
  const [pod] = shape.pods;
  if (!pod) return [];
  const volumes = (read(document, [...pod, "volumes"]) as Volume[] | undefined) ?? [];
  const mounts = (read(document, [...pod, "containers", 0, "volumeMounts"]) as Mount[] | undefined) ?? [];
  return volumes
    .filter((volume) => volume?.persistentVolumeClaim)
    .map(({ name, persistentVolumeClaim }) => ({
      name: persistentVolumeClaim?.claimName ?? "",
      value: mounts.find((mount) => mount.name === name)?.mountPath ?? "",
    }));
}

export function volumeChanges(
  { document, shape }: { document: Document; shape: Shape },
  pairs: readonly Pair[],
): [Path, unknown][] {
  return shape.pods
    .filter((pod) => document.hasIn(pod))
    .flatMap((pod): [Path, unknown][] => {
      const volumes = (read(document, [...pod, "volumes"]) as Volume[] | undefined) ?? [];
      const mounts = (read(document, [...pod, "containers", 0, "volumeMounts"]) as Mount[] | undefined) ?? [];
      const claims = new Set(volumes.filter((volume) => volume?.persistentVolumeClaim).map(({ name }) => name));
      const names = pairs.map((_pair, index) => `data-${index}`);
      const allVolumes = [
        ...volumes.filter(({ name }) => !claims.has(name)),
        ...pairs.map((pair, index) => ({ name: names[index], persistentVolumeClaim: { claimName: pair.name } })),
      ];
      const allMounts = [
        ...mounts.filter(({ name }) => !claims.has(name)),
        ...pairs.map((pair, index) => ({ name: names[index], mountPath: pair.value })),
      ];
      return [
        [[...pod, "volumes"], allVolumes.length ? allVolumes : undefined],
        [[...pod, "containers", 0, "volumeMounts"], allMounts.length ? allMounts : undefined],
      ];
    });
}

export function readMap(document: Document, path: Path): Pair[] {
  const value = read(document, path);
  if (!value || typeof value !== "object" || Array.isArray(value)) return [];
  return Object.entries(value).map(([name, one]) => ({ name, value: String(one ?? "") }));
}

export function asMap(pairs: readonly Pair[]): Record<string, string> | undefined {
  return pairs.length ? Object.fromEntries(pairs.map(({ name, value }) => [name, value])) : undefined;
}

// Faults -----------------------------------------------------------------------------------------------------------

/** `spec.mpiReplicaSpecs[Worker].template.spec.containers[0].image` as a path. */
export function pathOf(text: string): Path {
  return text
    .replace(/\[([^\]]*)\]/g, ".$1")
    .split(".")
    .filter(Boolean)
    .map((part) => (/^\d+$/.test(part) ? Number(part) : part));
}

/** Whether a fault at a path is about a field at another: the field itself, or something inside of it. */
export function isAbout(fault: string | undefined, field: Path): boolean {
  const path = pathOf(fault ?? "");
  return field.length <= path.length && field.every((part, index) => String(part) === String(path[index]));
}
