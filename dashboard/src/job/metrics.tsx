// What the job used and reported over time: one chart for each, and one moment over all of them.

import {
  Alert,
  Button,
  Card,
  CardBody,
  CardTitle,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
} from "@patternfly/react-core";
import ChartLineIcon from "@patternfly/react-icons/dist/esm/icons/chart-line-icon";
import { type FormEvent, useMemo, useState } from "react";
import { useSearchParams } from "react-router-dom";
import { ErrorAlert, ErrorState, LoadingLines, NothingHere } from "../components/states";
import { clock } from "../format/time";
import { messages } from "../messages";
import { nameOf, titleOf } from "./metric-words";
import { MetricCharts } from "./metrics-charts";
import { chartsOf, notFinite, unmeasured } from "./metrics-data";
import type { JobTab } from "./tab";
import { timelineOf } from "./timeline-items";
import { useJobEvents, useMetrics } from "./use-job";

const text = messages.job.metrics;

export function Metrics({ job, jobRef, live }: JobTab) {
  const [address, setAddress] = useSearchParams();
  const patterns = address.getAll("pattern").filter(Boolean);
  const metrics = useMetrics(jobRef, live, patterns);
  const { data: events = [] } = useJobEvents(jobRef, live);
  const charts = useMemo(() => (metrics.data ? chartsOf(metrics.data, nameOf) : []), [metrics.data]);
  const moments = useMemo(() => timelineOf(job, events).map((moment) => Date.parse(moment.at)), [job, events]);
  const setPatterns = (to: string[]) =>
    setAddress(
      (before) => {
        const after = new URLSearchParams(before);
        after.delete("pattern");
        for (const pattern of to) after.append("pattern", pattern);
        return after;
      },
      { replace: true },
    );
  const failed = metrics.error && !metrics.data;
  return (
    <>
      {failed ? (
        <ErrorState error={metrics.error} onRetry={() => void metrics.refetch()} />
      ) : !metrics.data ? (
        <LoadingLines lines={8} />
      ) : (
        <>
          {metrics.error && (
            <ErrorAlert error={metrics.error} title={messages.job.stale} onRetry={() => void metrics.refetch()} />
          )}
          {charts.length ? (
            <MetricCharts charts={charts} moments={moments} />
          ) : (
            <NothingHere title={text.none} icon={ChartLineIcon}>
              {live ? text.noneYet : text.noneEnded}
            </NothingHere>
          )}
          {notFinite(metrics.data).map(({ name, count, first }) => (
            <Alert
              key={name}
              isInline
              isPlain
              variant="warning"
              component="p"
              title={<bdi>{text.notFinite(titleOf(name), count, first === undefined ? "" : clock(first))}</bdi>}
            />
          ))}
          {metrics.data.notes.map((note) => (
            <Alert key={note} isInline isPlain variant="info" component="p" title={<bdi>{note}</bdi>} />
          ))}
          <Unmeasured missing={unmeasured(job.row?.gpus, charts)} />
        </>
      )}
      <Patterns patterns={patterns} onChange={setPatterns} />
    </>
  );
}

function Unmeasured({ missing }: { missing: ReturnType<typeof unmeasured> }) {
  if (!missing.length) return null;
  return (
    <Card isCompact className="job-unmeasured">
      <CardTitle component="h2">{text.unmeasured.title}</CardTitle>
      <CardBody>
        <p>{text.unmeasured.body}</p>
        <dl>
          {missing.map((key) => (
            <div key={key}>
              <dt>{text.unmeasured[key].term}</dt>
              <dd>{text.unmeasured[key].source}</dd>
            </div>
          ))}
        </dl>
      </CardBody>
    </Card>
  );
}

function Patterns({ patterns, onChange }: { patterns: string[]; onChange: (patterns: string[]) => void }) {
  const [typed, setTyped] = useState("");
  const add = (event: FormEvent) => {
    event.preventDefault();
    const pattern = typed.trim();
    if (pattern) onChange([...new Set([...patterns, pattern])]);
    setTyped("");
  };
  return (
    <Form onSubmit={add} className="job-patterns">
      <FormGroup label={text.patterns} fieldId="metrics-pattern">
        <ul>
          {patterns.map((pattern) => (
            <li key={pattern}>
              <code>{pattern}</code>{" "}
              <Button
                variant="link"
                isInline
                aria-label={text.removePattern(pattern)}
                onClick={() => onChange(patterns.filter((one) => one !== pattern))}
              >
                {text.remove}
              </Button>
            </li>
          ))}
        </ul>
        <div className="job-pattern">
          <TextInput
            id="metrics-pattern"
            value={typed}
            placeholder="step_time=(?<step_time>[0-9.]+)"
            aria-describedby="metrics-pattern-hint"
            onChange={(_event, to) => setTyped(to)}
          />
          <Button type="submit" variant="secondary">
            {text.addPattern}
          </Button>
        </div>
        <FormHelperText>
          <HelperText id="metrics-pattern-hint">
            <HelperTextItem>{text.patternHint}</HelperTextItem>
          </HelperText>
        </FormHelperText>
      </FormGroup>
    </Form>
  );
}
