// GPUs by model, as people read them: names for models that no node's label tells, and the sum of all.

import type { Schemas } from "../api/client";
import { messages } from "../messages";

type Model = Schemas["GpuModel"];

const { gpus: text } = messages.admin;

/** The name of a model. Where nodes have no label for it, the service names the resource; nothing is any model. */
export function modelName(model: string | undefined): string {
  if (!model) return text.unnamed;
  return Object.entries(text.unlabelled).find(([resource]) => resource === model)?.[1] ?? model;
}

/** The rows with their sum, if there is more than one. What is unknown of one model is unknown of all. */
export function withTotal(models: readonly Model[]): (Model & { isTotal?: boolean })[] {
  if (models.length < 2) return [...models];
  const sum = (of: (row: Model) => number | undefined) =>
    models.reduce<number | undefined>((all, row) => {
      const one = of(row);
      return all === undefined || one === undefined ? undefined : all + one;
    }, 0);
  const total = {
    model: text.all,
    gpus: sum((row) => row.gpus) ?? 0,
    used: sum((row) => row.used),
    free: sum((row) => row.free),
    asked: sum((row) => row.asked),
  };
  return [...models, { ...total, isTotal: true }];
}
