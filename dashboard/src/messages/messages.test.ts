import { expect, test } from "vitest";
import { messages } from "../messages";

/** Names of things, and of keys. */
const names =
  /^(?:Workers?|Launchers?|Kubernetes|Kueue|LocalQueue|Prometheus|MiB|NaN|ConfigMaps|Secrets|Horovod|DeepSpeed|Python|\w*Job|ClusterTrainingRuntime|PersistentVolumeClaim|Page|Up|Down|Home|End|Enter|Escape|Tab|Pod|Security|Standard|Compare|Deliveries)$/;
/** The states of Workers, as every interface writes them. */
const states = /^x(?:\/y)? (?:Running|Pending|Failed)$/;
/** Words that the reader would have to guess, and paths of the API. */
const unclear =
  /last words|\bits logs|who can remove|did not work|asked for|waited for|right: \d|\bkebab\b|\bspec\.|resources\.(?:limits|requests)|\[object /i;

/** Every text with its place; a function's with placeholders. */
function textsOf(value: unknown, path: string): [string, string][] {
  if (typeof value === "function") return textsOf(value("x", "y", "z"), path);
  if (typeof value === "string") return [[path, value]];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, one]) => textsOf(one, path ? `${path}.${key}` : key));
}

const texts = textsOf(messages, "");

test("texts are in sentence case, but for names", () => {
  const capitals = texts.filter(([path, text]) => {
    if (states.test(text) || path === "common.documentTitle") return false;
    const sentences = text.split(/[.:;!?…]\s+|“[^”]*”|\n/).map((sentence) => sentence.match(/[\p{L}\d/]+/gu) ?? []);
    return sentences.some((words) => words.slice(1).some((word) => /^[A-Z][a-z]/.test(word) && !names.test(word)));
  });
  expect(capitals).toEqual([]);
});

test("no text has words that the reader must guess, or paths of the API", () => {
  expect(texts.length).toBeGreaterThan(600);
  expect(texts.filter(([, text]) => unclear.test(text))).toEqual([]);
});
