// What was sent by the rules of a namespace, newest first.

import { Label } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { ask, client } from "../api/client";
import { pollInterval } from "../api/stream";
import { DataTable } from "../components/data-table";
import { ErrorState, LoadingLines } from "../components/states";
import { Ago } from "../components/time";
import { messages } from "../messages";

const text = messages.notifications;
const looks = { pending: "info", delivered: "success", dead: "danger" } as const;

export function Deliveries({ namespace }: { namespace: string }) {
  const list = useQuery({
    queryKey: ["deliveries", namespace],
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/namespaces/{namespace}/deliveries", { params: { path: { namespace } }, signal })),
    refetchInterval: pollInterval,
  });
  if (list.error) return <ErrorState error={list.error} headingLevel="h3" onRetry={() => void list.refetch()} />;
  if (!list.data) return <LoadingLines />;
  if (!list.data.deliveries.length) return <p>{text.noDeliveries}</p>;
  const { delivery } = text;
  return (
    <DataTable
      label={text.deliveries}
      rows={list.data.deliveries}
      rowKey={({ id = "" }) => id}
      columns={[
        { label: delivery.created, cell: ({ created }) => <Ago time={created} /> },
        { label: delivery.rule, cell: ({ rule }) => <bdi>{rule}</bdi> },
        {
          label: delivery.state,
          cell: ({ state = "pending" }) => (
            <Label className="app-label" isCompact status={looks[state]}>
              {text.states[state]}
            </Label>
          ),
        },
        { label: delivery.tries, cell: ({ tries }) => tries },
        {
          label: delivery.answer,
          cell: ({ status, error }) => (
            <>
              {status} <bdi>{error}</bdi>
            </>
          ),
        },
      ]}
    />
  );
}
