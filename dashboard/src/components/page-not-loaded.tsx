// In place of a page whose code could not be loaded: the service is away, or has a newer version of the pages.

import { PageSection } from "@patternfly/react-core";
import { useRouteError } from "react-router-dom";
import { Failed } from "./error-boundary";

export function PageNotLoaded() {
  const error = useRouteError();
  return (
    <PageSection>
      <Failed error={error} />
    </PageSection>
  );
}
