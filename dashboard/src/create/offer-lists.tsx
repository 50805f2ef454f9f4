// The lists to choose from, once for all fields of the form.

import { memo } from "react";
import { messages } from "../messages";
import { listId, type Offer, type Offered, type Offers } from "./offers";

export function OfferLists({ offers }: { offers: Offers }) {
  return (Object.keys(offers) as Offered[]).map((offered) => (
    <OfferList key={offered} id={listId(offered)} items={offers[offered].items} />
  ));
}

const OfferList = memo(function OfferList({ id, items }: { id: string; items: Offer["items"] }) {
  if (!items.length) return null;
  return (
    <datalist id={id}>
      {items.map(({ value, about }) => (
        // Some browsers show the label in place of the value, so it has both.
        <option key={value} value={value} label={about && messages.create.offers.item(value, about)} />
      ))}
    </datalist>
  );
});
