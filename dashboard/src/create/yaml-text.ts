// A manifest as the text that a person wrote: what kind of thing it is, and how what the service changed gets into it without
// losing comments, order and formatting. Nothing here knows what a field of a job means.

import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isNode,
  isScalar,
  isSeq,
  type Node,
  parse,
  parseDocument,
  type YAMLMap,
  type YAMLSeq,
} from "yaml";
import { isObject } from "./fields";

export type TextFault = { message: string; line: number; column: number };
/** A text with a kind and perhaps a namespace, or one that cannot be read. */
export type Written = { kind: string; namespace: string } | { fault: TextFault };

const format = { lineWidth: 0, flowCollectionPadding: false } as const;
/** The fields that identify the items of a list; the first one that all items have is used. */
const itemKeys = ["mountPath", "name", "manager"] as const;

export function readText(text: string): Written {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error) {
    const { line = 1, col = 1 } = error.linePos?.[0] ?? {};
    return { fault: { message: error.message.split("\n")[0] ?? "", line, column: col } };
  }
  const at = (path: string[]) => (isCollection(document.contents) ? document.getIn(path) : undefined);
  const word = (path: string[]) => String(at(path) ?? "");
  return { kind: word(["kind"]), namespace: word(["metadata", "namespace"]) };
}

/** The person's text with the values of another one. A text that cannot be read is replaced. */
export function merge(text: string, changed: string): string {
  const wanted: unknown = parse(changed);
  return edited(text, (document) => mergeNode(document, document.contents, wanted)) ?? changed;
}

/** The text with another namespace; none removes it. */
export function withNamespace(text: string, namespace: string): string {
  const path = ["metadata", "namespace"];
  const change = (document: Document) => {
    if (namespace) document.setIn(path, namespace);
    else document.deleteIn(path);
    return document.contents;
  };
  return edited(text, change) ?? text;
}

function edited(text: string, change: (document: Document) => unknown): string | undefined {
  const document = parseDocument(text);
  if (document.errors.length || !isMap(document.contents)) return undefined;
  const before = JSON.stringify(document.toJS());
  document.contents = change(document) as typeof document.contents;
  return JSON.stringify(document.toJS()) === before ? text : document.toString(format);
}

/** The node for a value: the one that is there, changed where it differs, or another one. */
function mergeNode(document: Document, node: unknown, wanted: unknown): unknown {
  if (isNode(node) && isSame(node.toJS(document), wanted)) return node;
  if (isMap(node) && isObject(wanted)) return mergeMap(document, node, wanted);
  if (isSeq(node) && Array.isArray(wanted)) return mergeList(document, node, wanted);
  if (isScalar(node) && (typeof wanted !== "object" || wanted === null)) {
    // The scalar keeps its comment and, where the type stays, its quotes.
    node.value = wanted;
    return node;
  }
  const created = document.createNode(wanted);
  return isNode(node) && !isAlias(node) ? withComments(created, node) : created;
}

function withComments(created: Node, before: Node): Node {
  if (before.comment) created.comment = before.comment;
  if (before.commentBefore) created.commentBefore = before.commentBefore;
  return created;
}

function mergeMap(document: Document, map: YAMLMap, wanted: Record<string, unknown>): YAMLMap {
  // A map in one line, `{}`, becomes one in lines, unless it had content.
  if (!map.items.length) map.flow = false;
  const nameOf = (key: unknown) => String(isScalar(key) ? key.value : key);
  map.items = map.items.filter(({ key }) => nameOf(key) in wanted);
  for (const [name, value] of Object.entries(wanted)) {
    const pair = map.items.find(({ key }) => nameOf(key) === name);
    if (pair) pair.value = mergeNode(document, pair.value, value);
    else map.items.push(document.createPair(name, value));
  }
  return map;
}

function mergeList(document: Document, list: YAMLSeq, wanted: readonly unknown[]): YAMLSeq {
  if (!list.items.length) list.flow = false;
  const present = list.items.map((item): unknown => (isNode(item) ? item.toJS(document) : item));
  const key = itemKeys.find((one) => hasKey(present, one) && hasKey(wanted, one));
  const nodeFor = (value: unknown, index: number): unknown => {
    if (!key) return list.items[index];
    return list.items[present.findIndex((item) => isObject(item) && isObject(value) && item[key] === value[key])];
  };
  list.items = wanted.map((value, index) => mergeNode(document, nodeFor(value, index), value));
  return list;
}

/** Whether a field tells all items apart. */
function hasKey(items: readonly unknown[], key: string): boolean {
  const names = items.map((item) => (isObject(item) ? item[key] : undefined));
  return names.every((name) => typeof name === "string") && new Set(names).size === names.length;
}

function isSame(one: unknown, other: unknown): boolean {
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, index) => isSame(item, other[index]));
  if (!isObject(one) || !isObject(other)) return (one ?? null) === (other ?? null);
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length && names.every((name) => name in other && isSame(one[name], other[name]))
  );
}
