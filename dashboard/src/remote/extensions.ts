// What the dashboard adds to ODH Dashboard: an area, an entry of its navigation, and a route with all pages.
//
// The host loads this module at once, and the pages when someone opens them: nothing here may import React.

import { remote } from "../messages/remote";
import { place } from "./place";

const area = "training-service";
const flags = { required: [area] };

export default [
  { type: "app.area", properties: { id: area } },
  {
    type: "app.navigation/href",
    flags,
    properties: {
      id: area,
      title: remote.navigation,
      section: "develop-and-train",
      href: place,
      path: `${place}/*`,
    },
  },
  { type: "app.route", flags, properties: { path: `${place}/*`, component: () => import("./remote") } },
] as const;
