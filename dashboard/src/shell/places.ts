// The pages that every frame links to.

import { messages } from "../messages";

const { nav } = messages.common;

export const places = [
  { to: "/jobs", label: nav.jobs },
  { to: "/create", label: nav.create },
  { to: "/templates", label: nav.templates },
  { to: "/notifications", label: nav.notifications },
  { to: "/admin", label: nav.admin },
];
