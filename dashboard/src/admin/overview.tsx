// GPUs, jobs, quotas and queues of the cluster, as the service counts them.

import {
  Alert,
  Card,
  CardBody,
  CardTitle,
  Gallery,
  GalleryItem,
  Label,
  Progress,
  ProgressMeasureLocation,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";
import { useGpus } from "../api/choices";
import { ask, client, type Schemas } from "../api/client";
import { pollInterval } from "../api/stream";
import { DataTable } from "../components/data-table";
import { freeGpus } from "../components/free-gpus";
import { Sentences } from "../components/sentences";
import { ErrorAlert, ErrorState, LoadingLines } from "../components/states";
import { messages } from "../messages";
import { Alerts } from "../notifications/alerts";
import { useNamespace } from "../shell/namespace";
import { FigureCards } from "./figure-cards";
import { nearQuota } from "./figures";
import { modelName, withTotal } from "./models";

const text = messages.admin;
type Counts = Schemas["Overview"];

export function Overview() {
  const [namespace] = useNamespace();
  const overview = useQuery({
    queryKey: ["overview", namespace],
    queryFn: ({ signal }) =>
      ask(client.GET("/api/v1/overview", { params: { query: namespace ? { namespace } : {} }, signal })),
    refetchInterval: pollInterval,
  });
  const { data, error } = overview;
  if (!data)
    return error ? <ErrorState error={error} onRetry={() => void overview.refetch()} /> : <LoadingLines lines={10} />;
  return (
    <>
      <Alerts namespace={namespace} />
      {error && <ErrorAlert error={error} onRetry={() => void overview.refetch()} />}
      {data.unread.length > 0 && (
        <Alert isInline component="h2" variant="info" title={text.unread}>
          <bdi>{text.unreadBody(data.unread.join(", "))}</bdi>
        </Alert>
      )}
      <FigureCards overview={data} namespace={namespace} />
      <Gallery hasGutter minWidths={{ default: "min(100%, 34rem)" }} className="app-section">
        <Models overview={data} namespace={namespace} />
        <Nodes overview={data} />
        <Quotas overview={data} />
        <Namespaces overview={data} />
        <Users overview={data} />
        <Queues overview={data} />
      </Gallery>
    </>
  );
}

function Part({
  title,
  none,
  isEmpty,
  isUnread = false,
  children,
}: {
  title: string;
  none: string;
  isEmpty: boolean;
  /** Whether the person may not read what would be shown, so that nothing to show does not mean that there is none. */
  isUnread?: boolean;
  children: ReactNode;
}) {
  return (
    <GalleryItem>
      <Card isCompact isFullHeight>
        <CardTitle component="h2">{title}</CardTitle>
        <CardBody>{isEmpty ? (isUnread ? text.unknown : none) : children}</CardBody>
      </Card>
    </GalleryItem>
  );
}

/** For those who may not list nodes: the sums that are for everybody who may create jobs in the namespace. */
function Models({ overview: { models, unread }, namespace }: { overview: Counts; namespace: string }) {
  const { gpus } = text;
  const isUnread = unread.includes("nodes");
  const free = freeGpus(useGpus(isUnread ? namespace : ""));
  const isEmpty = !models.length && !free.length;
  return (
    <Part title={gpus.title} none={gpus.none} isEmpty={isEmpty} isUnread={isUnread}>
      {models.length > 0 && (
        <DataTable
          label={gpus.title}
          rows={withTotal(models)}
          rowKey={({ model = "", isTotal }) => (isTotal ? "" : `model ${model}`)}
          columns={[
            {
              label: gpus.model,
              cell: ({ model, isTotal }) => (isTotal ? <strong>{model}</strong> : <bdi>{modelName(model)}</bdi>),
            },
            { label: gpus.total, cell: (row) => row.gpus },
            { label: gpus.used, cell: ({ used }) => used ?? gpus.unknown },
            { label: gpus.free, cell: ({ free }) => free ?? gpus.unknown },
            { label: gpus.asked, cell: ({ asked }) => asked ?? gpus.unknown },
          ]}
        />
      )}
      <Sentences lines={free} />
    </Part>
  );
}

function Nodes({ overview: { nodes, unread } }: { overview: Counts }) {
  const { nodes: words, gpus } = text;
  return (
    <Part title={words.title} none={gpus.none} isEmpty={!nodes.length} isUnread={unread.includes("nodes")}>
      <DataTable
        label={words.title}
        rows={nodes}
        rowKey={({ name = "" }) => name}
        columns={[
          { label: words.node, cell: ({ name }) => <bdi>{name}</bdi> },
          { label: gpus.model, cell: ({ model }) => <bdi>{modelName(model)}</bdi> },
          { label: gpus.used, cell: ({ used, gpus: all }) => `${used ?? gpus.unknown} / ${all}` },
          {
            label: words.state,
            cell: ({ usable }) => (
              <Label className="app-label" isCompact status={usable ? "success" : "danger"}>
                {usable ? words.usable : words.unusable}
              </Label>
            ),
          },
        ]}
      />
    </Part>
  );
}

type Counted = { jobs?: Schemas["JobCounts"] };
const counts = [
  { label: text.jobs.running, cell: ({ jobs }: Counted) => jobs?.running },
  { label: text.jobs.pending, cell: ({ jobs }: Counted) => jobs?.pending },
  { label: text.jobs.gpus, cell: ({ jobs }: Counted) => jobs?.gpus },
  { label: text.jobs.asked, cell: ({ jobs }: Counted) => jobs?.gpusAsked },
];

function JobsOf({ namespace, owner }: { namespace?: string; owner?: string }) {
  const query = new URLSearchParams({ namespace: namespace ?? "" });
  for (const phase of ["Running", "Pending"]) query.append("phase", phase);
  if (owner) query.set("owner", owner);
  return (
    <Link to={`/jobs?${query}`}>
      <bdi>{owner || namespace}</bdi>
    </Link>
  );
}

function Namespaces({ overview: { namespaces } }: { overview: Counts }) {
  return (
    <Part title={text.jobs.byNamespace} none={text.jobs.none} isEmpty={!namespaces.length}>
      <DataTable
        label={text.jobs.byNamespace}
        rows={namespaces}
        rowKey={({ namespace = "" }) => namespace}
        columns={[{ label: text.jobs.namespace, cell: ({ namespace }) => <JobsOf namespace={namespace} /> }, ...counts]}
      />
    </Part>
  );
}

function Users({ overview: { users } }: { overview: Counts }) {
  return (
    <Part title={text.jobs.byUser} none={text.jobs.none} isEmpty={!users.length}>
      <DataTable
        label={text.jobs.byUser}
        rows={users}
        rowKey={({ user, namespace }) => `${namespace}/${user}`}
        columns={[
          {
            label: text.jobs.user,
            cell: ({ user, namespace }) => user && <JobsOf namespace={namespace} owner={user} />,
          },
          { label: text.jobs.namespace, cell: ({ namespace }) => namespace },
          ...counts,
        ]}
      />
    </Part>
  );
}

function Quotas({ overview: { quotas, unread } }: { overview: Counts }) {
  const words = text.quotas;
  return (
    <Part title={words.title} none={words.none} isEmpty={!quotas.length} isUnread={unread.includes("quotas")}>
      {quotas.map(({ namespace, percent, message, resources }) => (
        <div key={namespace} className="app-quota">
          <Progress
            value={percent}
            title={message}
            variant={percent >= 100 ? "danger" : percent >= nearQuota ? "warning" : undefined}
            measureLocation={ProgressMeasureLocation.none}
            aria-label={message}
          />
          <DataTable
            label={message ?? words.title}
            rows={resources}
            rowKey={({ quota, resource }) => `${quota}/${resource}`}
            columns={[
              { label: words.resource, cell: ({ resource }) => resource },
              { label: words.used, cell: ({ used }) => used },
              { label: words.hard, cell: ({ hard }) => hard },
              { label: "%", cell: (row) => words.percent(row.percent) },
            ]}
          />
        </div>
      ))}
    </Part>
  );
}

function Queues({ overview: { queues, unread } }: { overview: Counts }) {
  const words = text.queues;
  const resources = queues.flatMap((queue) => queue.resources.map((resource) => ({ queue: queue.name, ...resource })));
  return (
    <Part
      title={words.title}
      none={words.none}
      isEmpty={!queues.length}
      isUnread={unread.some((what) => what.endsWith("Queues"))}
    >
      <DataTable
        label={words.title}
        rows={queues}
        rowKey={({ namespace, name }) => `${namespace}/${name}`}
        columns={[
          {
            label: words.name,
            cell: ({ namespace, name, stopped }) => (
              <>
                <bdi>{namespace ? `${namespace}/${name}` : name}</bdi>{" "}
                {stopped && (
                  <Label className="app-label" isCompact>
                    {words.stopped}
                  </Label>
                )}
              </>
            ),
          },
          { label: words.cohort, cell: ({ cohort, clusterQueue }) => <bdi>{cohort ?? clusterQueue}</bdi> },
          { label: words.admitted, cell: ({ admitted }) => admitted },
          { label: words.pending, cell: ({ pending }) => pending },
        ]}
      />
      {resources.length > 0 && (
        <DataTable
          label={words.resource}
          rows={resources}
          rowKey={({ queue, resource }) => `${queue}/${resource}`}
          columns={[
            { label: words.name, cell: ({ queue }) => <bdi>{queue}</bdi> },
            { label: words.resource, cell: ({ resource }) => resource },
            { label: words.nominal, cell: ({ nominal }) => nominal },
            { label: words.used, cell: ({ used }) => used },
            { label: words.borrowed, cell: ({ borrowed }) => borrowed },
          ]}
        />
      )}
    </Part>
  );
}
