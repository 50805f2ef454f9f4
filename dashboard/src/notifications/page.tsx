// Rules about who hears of what, and what was sent.

import { Button, PageSection, Title } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ask, client } from "../api/client";
import { PageHeader } from "../components/page-header";
import { ErrorState, LoadingLines, NothingHere } from "../components/states";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";
import { Deliveries } from "./deliveries";
import { RuleForm } from "./rule-form";
import { Rules } from "./rules";

const text = messages.notifications;

export function NotificationsPage() {
  const [namespace] = useNamespace();
  const [creating, setCreating] = useState(false);
  const create = namespace && <Button onClick={() => setCreating(true)}>{text.create}</Button>;
  return (
    <>
      <PageHeader title={text.title} description={text.description} actions={create} />
      <PageSection isFilled>
        {namespace ? (
          <Content namespace={namespace} />
        ) : (
          <NothingHere title={text.chooseNamespace}>{text.chooseNamespaceBody}</NothingHere>
        )}
        {creating && <RuleForm namespace={namespace} onClose={() => setCreating(false)} />}
      </PageSection>
    </>
  );
}

function Content({ namespace }: { namespace: string }) {
  const rules = useQuery({
    queryKey: ["rules", namespace],
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/namespaces/{namespace}/notifications", { params: { path: { namespace } }, signal })),
  });
  if (rules.error) return <ErrorState error={rules.error} onRetry={() => void rules.refetch()} />;
  if (!rules.data) return <LoadingLines />;
  if (!rules.data.rules.length) return <NothingHere title={text.empty}>{text.emptyBody}</NothingHere>;
  return (
    <div className="app-form-part">
      <section>
        <Title headingLevel="h2">{text.rules}</Title>
        <Rules namespace={namespace} rules={rules.data.rules} />
      </section>
      <section>
        <Title headingLevel="h2">{text.deliveries}</Title>
        <Deliveries namespace={namespace} />
      </section>
    </div>
  );
}
