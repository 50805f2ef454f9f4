// Every word that the dashboard shows, in one typed table. Each part has a file of its own.

import { admin } from "./messages/admin";
import { common } from "./messages/common";
import { compare } from "./messages/compare";
import { create } from "./messages/create";
import { job } from "./messages/job";
import { jobs } from "./messages/jobs";
import { notifications } from "./messages/notifications";
import { templates } from "./messages/templates";
import { tour } from "./messages/tour";

export const messages = { common, jobs, create, job, compare, admin, templates, notifications, tour } as const;
