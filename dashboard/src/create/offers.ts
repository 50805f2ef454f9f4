// What the fields of the form offer to choose from: what the service lists for the namespace. Anything else can be typed.

import type { Choices, Gpus, Read } from "../api/choices";
import type { Schemas } from "../api/client";
import { roomText } from "../components/free-gpus";
import { whyUnknown } from "../components/unknown";
import { bytes, quantityText } from "../format/quantity";
import { messages } from "../messages";
import { amountsText } from "./totals";

const text = messages.create.offers;

export type Offered = Exclude<keyof Choices, "unknown" | "hardwareProfiles">;
type Item = { value: string; about?: string };
/** `note`: why there is no list, or that it is not whole. */
export type Offer = { items: readonly Item[]; note?: string };
export type Offers = Readonly<Record<Offered, Offer>>;

export function offersOf(choices: Read<Choices>, gpus: Read<Gpus>): Offers {
  const { claims, secrets, configMaps, queues, priorityClasses, runtimes, images } = choices.data ?? {};
  const offer = (part: Offered, items: Item[] | undefined, more?: boolean): Offer => {
    const why = whyUnknown(choices, part);
    if (why || !items) return { items: [], note: why && text.unknown(why) };
    return { items: items.filter(({ value }) => value), note: more ? text.more : undefined };
  };
  const rooms = gpus.error ? undefined : gpus.data?.queues?.queues;
  return {
    images: offer("images", images?.images.map(named)),
    runtimes: offer("runtimes", runtimes?.runtimes.map(ofRuntime), runtimes?.more),
    queues: offer(
      "queues",
      queues?.queues.map((queue) => ofQueue(queue, rooms)),
      queues?.more,
    ),
    priorityClasses: offer("priorityClasses", priorityClasses?.classes.map(ofClass), priorityClasses?.more),
    claims: offer("claims", claims?.claims.map(ofClaim), claims?.more),
    // Those for pulling images are of no use to a program.
    secrets: offer(
      "secrets",
      secrets?.secrets.filter(({ imagePull }) => !imagePull).map(({ name = "" }) => named(name)),
      secrets?.more,
    ),
    configMaps: offer("configMaps", configMaps?.names.map(named), configMaps?.more),
  };
}

function named(value: string): Item {
  return { value };
}

function item(value = "", ...about: (string | undefined | false)[]): Item {
  return { value, about: about.filter(Boolean).join(", ") || undefined };
}

function ofRuntime({ reference, framework, mpi, nodes }: Schemas["RuntimeChoice"]): Item {
  return item(reference, framework, mpi, nodes !== undefined && text.nodes(nodes));
}

/** What the quota has free: where the person may not read it, the GPUs that the service counts for everybody. */
function ofQueue(queue: Schemas["QueueChoice"], rooms?: Schemas["QueueGpus"][]): Item {
  const { name, stopped, free, pending } = queue;
  const gpus = rooms?.find((one) => one.name === name);
  const unknown = queue.unknown ?? gpus?.unknown;
  if (unknown) return item(name, unknown.message);
  if (stopped) return item(name, text.stopped);
  const room = free ? amountsText(free) : gpus?.sums.length ? roomText(gpus) : undefined;
  return item(name, room && text.free(room), pending !== undefined && text.waiting(pending));
}

function ofClass({ name, value, standard }: Schemas["PriorityClassChoice"]): Item {
  return item(name, text.priority(value), standard && text.standard);
}

function ofClaim({ name, size, accessModes, phase }: Schemas["ClaimChoice"]): Item {
  return item(name, size && quantityText(size, bytes), ...accessModes, phase !== "Bound" && phase);
}

/** The list of a field, by the id of its element, if there is one. */
export function listOf(offers: Offers, offered: Offered): string | undefined {
  return offers[offered].items.length ? listId(offered) : undefined;
}

export function listId(offered: Offered): string {
  return `offers-${offered}`;
}

/** What is known about the chosen item, with its name where others are chosen too; else what there is to say about the list. */
export function aboutChoice({ items, note }: Offer, chosen: string, isNamed = false): string | undefined {
  const about = items.find(({ value }) => value === chosen)?.about;
  return about && isNamed ? text.item(chosen, about) : (about ?? note);
}
