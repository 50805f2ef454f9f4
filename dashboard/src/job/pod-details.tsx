// Everything about one pod, without a shell in it: what it waits for, the last lines of its output and its events.

import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  List,
  ListItem,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router-dom";
import { keys } from "../api/cache";
import type { Pod } from "../api/client";
import { errorOf, hasCode } from "../api/problem";
import { ScrollRegion } from "../components/scroll-region";
import { Sentence } from "../components/sentences";
import { ErrorAlert, LoadingLines } from "../components/states";
import { Age } from "../components/time";
import { messages } from "../messages";
import { MomentButton } from "./cursor";
import { type Line, lineOf } from "./logs/buffer";
import { itemsOf } from "./logs/reader";
import { readable, shorten } from "./logs/text";
import { type Manifest, ranksOf, roleOf } from "./manifest";
import { addressOf, type JobEvent, type Ref } from "./use-job";

const text = messages.job.workers;
const lastLines = 12;

type Props = {
  jobRef: Ref;
  pod: Pod;
  /** The state of the pod, or of its Worker. */
  state: string;
  manifest: Manifest;
  events: readonly JobEvent[];
  heading: "h2" | "h3" | "h4";
};

export function PodDetails({ jobRef, pod, state, manifest, events, heading: Heading }: Props) {
  const own = events.filter((event) => event.object === `pod/${pod.name}`);
  const isLauncher = pod.role === "Launcher";
  const logs = isLauncher ? "" : `?from=${pod.index ?? 0}`;
  return (
    <div className="job-details">
      <PodFacts pod={pod} state={state} manifest={manifest} />
      <Heading className="job-subtitle">{text.lastWords}</Heading>
      <LastWords jobRef={jobRef} pod={pod} />
      <p>
        <Link to={{ pathname: logsPath(jobRef), search: logs }}>{text.logs}</Link>
      </p>
      <Heading className="job-subtitle">{text.events}</Heading>
      {own.length ? (
        <List isPlain className="job-pod-events">
          {own.map((event, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the same may happen twice in a second.
            <ListItem key={place}>
              {event.at && <MomentButton time={event.at} what={event.reason ?? ""} />} <strong>{event.reason}</strong>{" "}
              <Sentence text={readable(event.message ?? "")} />
            </ListItem>
          ))}
        </List>
      ) : (
        <p className="job-note">{text.noEvents}</p>
      )}
    </div>
  );
}

function logsPath({ namespace, kind, name }: Ref): string {
  return `/jobs/${encodeURIComponent(namespace)}/${kind}/${encodeURIComponent(name)}/logs`;
}

function PodFacts({ pod, state, manifest }: Pick<Props, "pod" | "state" | "manifest">) {
  const role = roleOf(manifest, pod.role);
  const ranks = pod.role === "Launcher" ? undefined : ranksOf(manifest, pod.index);
  const facts: [string, React.ReactNode][] = [
    [text.columns.state, state],
    [text.waitsFor, pod.waitsFor && readable(pod.waitsFor)],
    [text.columns.node, pod.node],
    [text.columns.gpus, pod.gpus || undefined],
    [text.columns.cpu, role?.cpu],
    [text.columns.memory, role?.memory],
    [text.columns.ranks, ranks && text.ranks(...ranks)],
    [text.columns.restarts, pod.restarts],
    [text.columns.exitCode, pod.exitCode],
    [text.columns.age, pod.created && <Age time={pod.created} />],
  ];
  return (
    <DescriptionList isCompact columnModifier={{ default: "1Col", md: "2Col", xl: "3Col" }}>
      {facts
        .filter(([, value]) => value !== undefined && value !== "")
        .map(([term, value]) => (
          <DescriptionListGroup key={term}>
            <DescriptionListTerm>{term}</DescriptionListTerm>
            <DescriptionListDescription>
              <bdi>{value}</bdi>
            </DescriptionListDescription>
          </DescriptionListGroup>
        ))}
    </DescriptionList>
  );
}

function LastWords({ jobRef, pod }: { jobRef: Ref; pod: Pod }) {
  const words = useLastWords(jobRef, pod);
  if (words.isLoading) return <LoadingLines lines={3} />;
  if (hasCode(words.error, "NotFound")) return <p className="job-note">{text.noLogs}</p>;
  if (words.error) return <ErrorAlert error={words.error} onRetry={() => void words.refetch()} />;
  if (!words.data?.length) return <p className="job-note">{text.noWords}</p>;
  return (
    <ScrollRegion label={text.lastWordsOf(pod.name ?? "")} className="job-words">
      {words.data.map((line) => shorten(line.text, 500).text).join("\n")}
    </ScrollRegion>
  );
}

function useLastWords(jobRef: Ref, pod: Pod) {
  return useQuery({
    queryKey: [...keys.job(jobRef), "words", pod.name, pod.restarts, pod.state],
    queryFn: async ({ signal }): Promise<Line[]> => {
      const query = new URLSearchParams({ tail: String(lastLines) });
      if (pod.role !== "Launcher") query.set("worker", String(pod.index ?? 0));
      const response = await fetch(addressOf(jobRef, "logs", query), { signal, cache: "no-store" });
      if (!response.ok || !response.body) throw errorOf(response.status, await response.json().catch(() => undefined));
      const lines: Line[] = [];
      for await (const items of itemsOf(response.body)) {
        for (const item of items) {
          if ("problem" in item) throw errorOf(0, item.problem);
          if (item.type === "line") lines.push(lineOf(item));
        }
      }
      return lines;
    },
  });
}
