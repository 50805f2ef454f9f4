// What the compared jobs reported, over each other: a chart for each metric, with a curve for each job.

import { Grid, GridItem } from "@patternfly/react-core";
import { useQueries } from "@tanstack/react-query";
import type { Kind } from "../api/client";
import { ErrorAlert, LoadingLines } from "../components/states";
import { ChartCard, DrawingTools } from "../job/chart-card";
import { useChartView } from "../job/chart-view";
import { overlaid } from "../job/curves";
import { metricsOf } from "../job/use-job";
import { messages } from "../messages";

const text = messages.compare;

export function RunCharts({ namespace, kind, names }: { namespace: string; kind: Kind; names: string[] }) {
  const [view, change] = useChartView();
  const reads = useQueries({ queries: names.map((name) => metricsOf({ namespace, kind, name })) });
  const runs = names.map((name, place) => ({ name, metrics: reads[place]?.data }));
  const hasSteps = runs.some(({ metrics }) =>
    metrics?.training.some(({ points }) => points.some(({ step }) => step !== undefined)),
  );
  // Runs of one program are alike by step; how long each took is in the tables.
  const axis = view.axis ?? (hasSteps ? "step" : "time");
  const plots = overlaid(runs, axis === "step" ? "step" : "elapsed");
  return (
    <section aria-label={text.charts}>
      {plots.length > 0 && (
        <div className="job-chart-tools">
          <DrawingTools view={view} change={change} axes={hasSteps ? text.axes : undefined} axis={axis} />
        </div>
      )}
      {reads.map(
        ({ error, refetch }, place) =>
          error && (
            <ErrorAlert
              key={names[place]}
              error={error}
              title={text.unreadCurves(names[place] ?? "")}
              onRetry={() => void refetch()}
            />
          ),
      )}
      <Grid hasGutter>
        {plots.map((plot) => (
          <GridItem key={plot.key} xl={plots.length > 1 ? 6 : 12}>
            <ChartCard plot={plot} drawing={view} />
          </GridItem>
        ))}
      </Grid>
      {reads.some(({ isPending }) => isPending) && <LoadingLines lines={4} />}
    </section>
  );
}
