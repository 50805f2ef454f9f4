// What the service offers in the namespace of the job.

import { useMemo } from "react";
import { type Gpus, type Read, useChoices, useGpus } from "../api/choices";
import { isNamespace } from "../shell/namespace";
import { useSettled } from "./check";
import { type Hardware, hardwareOf } from "./hardware";
import { type Offers, offersOf } from "./offers";

type Offered = { offers: Offers; hardware: Hardware; gpus: Read<Gpus> };

/** Nothing until the namespace's name is typed, or if the person may not create jobs there. */
export function useOffers(typed: string, mayCreate: boolean): Offered {
  const settled = useSettled(typed);
  const namespace = mayCreate && settled === typed && isNamespace(typed) ? typed : "";
  const choices = useChoices(namespace);
  const gpus = useGpus(namespace);
  return {
    offers: useMemo(() => offersOf(choices, gpus), [choices, gpus]),
    hardware: useMemo(() => hardwareOf(choices), [choices]),
    gpus,
  };
}
