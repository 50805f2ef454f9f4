// What people look for first: what the job runs, how large it is, how far it is, and what it has reported.

import { Card, CardBody, CardTitle, ExpandableSection, Progress, Skeleton } from "@patternfly/react-core";
import { type ReactNode, useMemo, useState } from "react";
import { Link } from "react-router-dom";
import type { JobRow } from "../api/client";
import { Facts } from "../components/facts";
import { joinCommand } from "../create/command";
import { money } from "../format/money";
import { bytes, number, quantityText } from "../format/quantity";
import { duration } from "../format/time";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { commandOf, type Manifest, type Role } from "./manifest";
import { nameOf, titleOf, valueText } from "./metric-words";
import { chartsOf, extremes, valueAt } from "./metrics-data";
import type { JobTab } from "./tab";
import { type Ref, useCost, useMetrics } from "./use-job";

const text = messages.job.short;
const mostMetrics = 4;

type Props = Pick<JobTab, "job" | "jobRef" | "manifest" | "live">;

export function InShort({ job, jobRef, manifest, live }: Props) {
  const rows = [
    [text.image, <Images key="image" roles={manifest.roles} />],
    [text.command, <Command key="command" manifest={manifest} />],
    [text.size, <Size key="size" manifest={manifest} gpus={job.row?.gpus ?? 0} />],
    ...progressRow(job.row),
    ...useReported(jobRef, live),
    ...useCostRow({ job, jobRef }),
  ] as const;
  return (
    <Card component="section" aria-labelledby="short-title">
      <CardTitle component="h2" id="short-title">
        {text.title}
      </CardTitle>
      <CardBody>
        <Facts rows={rows} termWidth="12ch" />
      </CardBody>
    </Card>
  );
}

type Row = readonly [term: string, value: ReactNode];

/** The image, with its roles where they have several. */
function Images({ roles }: { roles: readonly Role[] }) {
  const images = [...new Set(roles.map(({ image }) => image))];
  if (!images.length) return text.ofRuntime;
  const rolesOf = (image: string) => roles.filter((role) => role.image === image).map(({ name }) => name);
  return images.map((image) => (
    <div key={image} className="job-wrap">
      <bdi>{image || text.ofRuntime}</bdi>
      {images.length > 1 && ` (${rolesOf(image).join(", ")})`}
    </div>
  ));
}

function Command({ manifest }: { manifest: Manifest }) {
  const [isOpen, setOpen] = useState(false);
  const command = commandOf(manifest);
  if (!command.length) return text.ofImage;
  return (
    <ExpandableSection
      variant="truncate"
      truncateMaxLines={3}
      isExpanded={isOpen}
      toggleText={isOpen ? text.lessOfCommand : text.wholeCommand}
      onToggle={(_event, open) => setOpen(open)}
    >
      <code className="job-command">{joinCommand(command)}</code>
    </ExpandableSection>
  );
}

function Size({ manifest, gpus }: { manifest: Manifest; gpus: number }) {
  return (
    <>
      {manifest.roles.map(({ name, replicas, cpu, memory }) => {
        const requests = [cpu && text.cpu(quantityText(cpu, number)), memory && quantityText(memory, bytes)];
        const each = requests.filter(Boolean).join(", ");
        return (
          <div key={name}>
            {text.role(replicas, name)}
            {each && `: ${replicas > 1 ? text.each(each) : each}`}
          </div>
        );
      })}
      {gpus > 0 && <div>{text.gpus(gpus)}</div>}
    </>
  );
}

/** How far a job is that runs. One that waits has none, and one that ended has its state. */
function progressRow(row: JobRow | undefined): Row[] {
  if (row?.phase !== "Running") return [];
  const { progress } = row;
  if (!progress) return [[text.progress, text.noProgress]];
  const { remainingSeconds } = progress;
  const left = remainingSeconds === undefined ? text.noTimeLeft : messages.jobs.timeLeft(duration(remainingSeconds));
  return [
    [
      text.progress,
      <Progress
        key="progress"
        value={progress.percent}
        title={left}
        aria-label={text.progress}
        size="sm"
        className="job-progress"
      />,
    ],
  ];
}

/** What the program reported last, and which Worker holds up the others. */
function useReported(jobRef: Ref, live: boolean): Row[] {
  const metrics = useMetrics(jobRef, live);
  const charts = useMemo(() => (metrics.data ? chartsOf(metrics.data, nameOf) : []), [metrics.data]);
  if (metrics.isPending)
    return [[text.reported, <Skeleton key="loading" screenreaderText={messages.common.loading} />]];
  if (!metrics.data) return [[text.reported, text.unknown]];
  const rows: Row[] = [];
  const reported = charts
    .filter(({ isTraining, key }) => isTraining && key !== "progress")
    .slice(0, mostMetrics)
    .flatMap((chart) => {
      const value = chart.curves[0] && valueAt(chart, chart.curves[0], undefined);
      return value === undefined
        ? []
        : [messages.job.metrics.valueOf(titleOf(chart.key), valueText(value, chart.unit))];
    });
  if (reported.length)
    rows.push([
      text.reported,
      <Link key="reported" to={`${jobAddress(jobRef)}/metrics`}>
        <bdi>{reported.join(", ")}</bdi>
      </Link>,
    ]);
  const use = charts.find(({ key }) => key === "gpuUtilizationPercent");
  const found = live && use && use.curves.length > 1 ? extremes(use, undefined) : undefined;
  if (use && found) {
    const [lowest, highest] = [found.lowest, found.highest];
    const show = (value: number) => valueText(value, use.unit);
    rows.push([text.slowest, text.slowestOf(lowest[0].label, show(lowest[1]), highest[0].label, show(highest[1]))]);
  }
  return rows;
}

/** Nothing where no prices are set. */
function useCostRow({ job, jobRef }: Pick<Props, "job" | "jobRef">): Row[] {
  const { data, error } = useCost(jobRef, job);
  const term = job.row?.ended ? text.costInAll : text.cost;
  if (error && !data) return [[term, text.unknown]];
  return data?.currency && data.cost ? [[term, money(data.cost, data.currency)]] : [];
}
