// The documents that the service itself serves, so that help works without the internet.

import { serviceRoot } from "./root";

/** The reference of the API, with a place for each field. */
export const reference = `${serviceRoot}/docs`;

/** The section of the troubleshooting guide that a link of the service is about. */
export function guideSection(link: string | undefined): string | undefined {
  const [, section] = /#([a-z\d-]+)$/.exec(link ?? "") ?? [];
  return section && `${reference}/troubleshooting#${section}`;
}
