// For addresses that lead to no page.

import { PageSection } from "@patternfly/react-core";
import { Link } from "react-router-dom";
import { messages } from "../messages";
import { PageHeader } from "./page-header";

const text = messages.common.notFound;

export function NotFoundPage() {
  return (
    <>
      <PageHeader title={text.title} />
      <PageSection>
        <p>{text.body}</p>
        <Link to="/jobs">{text.home}</Link>
      </PageSection>
    </>
  );
}
