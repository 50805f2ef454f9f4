// In place of a page whose code could not be loaded: the service is away, or has a newer version of the pages.

import { PageSection } from "@patternfly/react-core";
import { useRouteError } from "react-router-dom";
import { Crashed, LoadFailed } from "./error-boundary";

export function PageNotLoaded() {
  const error = useRouteError();
  return <PageSection>{isLoadFailure(error) ? <LoadFailed /> : <Crashed error={error} />}</PageSection>;
}

/** Browsers have no name for the error of a dynamic import, only a message each; all are TypeErrors. */
function isLoadFailure(error: unknown): boolean {
  return error instanceof TypeError && /module|import/i.test(error.message);
}
