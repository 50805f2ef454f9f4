// What an administrator looks for first, as numbers: each leads to what it counts.

import { Card, CardBody, Gallery, GalleryItem, Icon } from "@patternfly/react-core";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import ExclamationTriangleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-triangle-icon";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";
import { keys } from "../api/cache";
import { ask, client, type Schemas } from "../api/client";
import { useNow } from "../components/time";
import { messages } from "../messages";
import { figuresOf, longRunning } from "./figures";

const text = messages.admin.figures;
const mostTeams = 3;
const mostJobs = 100;
/** A job runs long only after a day. */
const jobsInterval = 60_000;

export function FigureCards({ overview, namespace }: { overview: Schemas["Overview"]; namespace: string }) {
  const { gpus, used, free, asked, unusableNodes, nearQuota } = figuresOf(overview);
  return (
    <Gallery hasGutter component="ul" aria-label={text.label} minWidths={{ default: "min(100%, 15rem)" }}>
      <Figure title={text.used} value={used} of={gpus} />
      <Figure title={text.free} value={free} />
      <Figure title={text.asked} value={asked} />
      <Figure title={text.unusable} value={unusableNodes} isBad />
      <Figure title={text.nearQuota} value={nearQuota?.length}>
        {nearQuota?.slice(0, mostTeams).map(({ namespace: name, percent }) => (
          <div key={name}>
            <Link to={`/admin?namespace=${encodeURIComponent(name)}`}>
              <bdi>{name}</bdi>
            </Link>{" "}
            {messages.admin.quotas.percent(percent)}
          </div>
        ))}
        {nearQuota && nearQuota.length > mostTeams && text.more(nearQuota.length - mostTeams)}
      </Figure>
      <LongRunning namespace={namespace} />
    </Gallery>
  );
}

function LongRunning({ namespace }: { namespace: string }) {
  const now = useNow();
  const query = { phase: ["Running"], sort: "-duration" as const, limit: mostJobs, ...(namespace && { namespace }) };
  const { data } = useQuery({
    queryKey: keys.jobs({ longRunning: query }),
    queryFn: ({ signal }) => ask(client.GET("/api/v1/jobs", { params: { query }, signal })),
    refetchInterval: jobsInterval,
  });
  const count = data && longRunning(data.jobs, now);
  const address = new URLSearchParams({ namespace, phase: "Running", sort: "-duration", columns: text.columns });
  return (
    <Figure title={text.long} value={count} isOrMore={count === mostJobs && Boolean(data?.continue)} isQuiet>
      <Link to={`/jobs?${address}`}>{text.longest}</Link>
    </Figure>
  );
}

type FigureProps = {
  title: string;
  /** Undefined if it is unknown. */
  value: number | undefined;
  of?: number;
  isOrMore?: boolean;
  /** Whether anything but 0 is a failure; a warning otherwise, unless `isQuiet`. */
  isBad?: boolean;
  isQuiet?: boolean;
  children?: ReactNode;
};

function Figure({ title, value, of, isOrMore = false, isBad = false, isQuiet = false, children }: FigureProps) {
  const needsLook = Boolean(value) && !isQuiet && (isBad || children !== undefined);
  return (
    <GalleryItem component="li">
      <Card isCompact isFullHeight>
        <CardBody>
          <div>{title}</div>
          <div className="app-figure">
            {needsLook && (
              <Icon status={isBad ? "danger" : "warning"} size="md" isInline className="app-figure-icon">
                {isBad ? <ExclamationCircleIcon /> : <ExclamationTriangleIcon />}
              </Icon>
            )}
            {value === undefined ? text.unknown : isOrMore ? text.orMore(value) : value}
            {of !== undefined && <span className="app-figure-of"> {text.of(of)}</span>}
          </div>
          {children}
        </CardBody>
      </Card>
    </GalleryItem>
  );
}
