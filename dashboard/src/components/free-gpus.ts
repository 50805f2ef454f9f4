// How many GPUs are free, in sentences. What is unknown is called unknown, never 0.

import type { Gpus, Read } from "../api/choices";
import type { Schemas } from "../api/client";
import { messages } from "../messages";
import { whyUnknown } from "./unknown";

const text = messages.common.gpus;

/** The GPUs of the cluster and, if one is chosen, of a queue; nothing until they were counted. */
export function freeGpus(gpus: Read<Gpus>, queue = ""): string[] {
  return [inCluster(gpus), queue && inQueue(gpus, queue)].filter((line): line is string => Boolean(line));
}

function inCluster(gpus: Read<Gpus>): string | undefined {
  const why = whyUnknown(gpus, "cluster");
  if (why) return text.unknown(why);
  const sums = gpus.data?.cluster?.sums;
  if (!sums) return undefined;
  return sums.length
    ? text.free(sums.map((sum) => text.of(sum.free, sum.gpus, modelIn(sums, sum))).join(", "))
    : text.none;
}

/** The model, with the resource where others have the same model, such as parts of a GPU. */
function modelIn(sums: readonly Schemas["GpuSum"][], { model = "", resource = "" }: Schemas["GpuSum"]): string {
  const isOnly = sums.filter((one) => one.model === model).length === 1;
  return isOnly && model ? model : [model, resource && `(${resource})`].filter(Boolean).join(" ");
}

/** A queue that was not found is still being typed, or its absence is said elsewhere. */
function inQueue(gpus: Read<Gpus>, name: string): string | undefined {
  // An answer that did not come is said once.
  if (gpus.error) return undefined;
  const why = whyUnknown(gpus, "queues");
  if (why) return text.unknownInQueue(name, why);
  const queue = gpus.data?.queues?.queues.find((one) => one.name === name);
  if (!queue) return undefined;
  if (queue.unknown) return text.unknownInQueue(name, queue.unknown.message || messages.common.failed.unknown);
  if (queue.stopped) return text.stopped(name);
  return queue.sums.length ? text.freeInQueue(name, roomText(queue)) : text.noneInQueue(name);
}

/** `2 of 8 nvidia.com/gpu`. */
export function roomText({ sums }: Schemas["QueueGpus"]): string {
  return sums.map(({ free, gpus, resource = "" }) => text.of(free, gpus, resource)).join(", ");
}
