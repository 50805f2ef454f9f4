// The programs whose requests differ much from what their former runs used.

import { Label, Title } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router-dom";
import { ask, client, type Schemas } from "../api/client";
import { DataTable } from "../components/data-table";
import { ErrorAlert, LoadingLines } from "../components/states";
import { bytes, number, quantityText } from "../format/quantity";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";

const text = messages.admin.advice;
type Program = Schemas["ProgramAdvice"];
type Verdict = keyof typeof text.verdicts;
type Resource = keyof typeof text.resources;

const resources: Resource[] = ["memory", "cpu"];
const looks = { TooLittle: "orange", TooMuch: "blue", NotSet: "grey" } as const;
/** What runs used changes when one ends. */
const refresh = 60_000;

export type AdviceLine = {
  program: Program;
  role: string;
  resource: Resource;
  verdict: Verdict;
  requested: string | undefined;
  peak: string;
  suggested: string;
};

/** One line for each request that should change. */
export function linesOf(programs: readonly Program[]): AdviceLine[] {
  return programs.flatMap((program) =>
    program.roles.flatMap((advice) =>
      resources.flatMap((resource) => {
        const { verdict, requested, peak = "", suggested } = advice[resource] ?? {};
        const { role = "" } = advice;
        if (!suggested || !verdict || !(verdict in text.verdicts)) return [];
        // A Launcher only starts the program: most request nothing, and need not.
        if (role === "Launcher" && verdict === "NotSet") return [];
        return [{ program, role, resource, verdict: verdict as Verdict, requested, peak, suggested }];
      }),
    ),
  );
}

/** How many of the others are right, and about how many too little is known. */
export function othersOf(programs: readonly Program[]): { right: number; unknown: number } {
  const others = programs.filter((program) => !linesOf([program]).length);
  const known = others.filter(({ roles }) => roles.some(({ memory, cpu }) => memory?.peak || cpu?.peak));
  return { right: known.length, unknown: others.length - known.length };
}

export function Advice() {
  const [namespace] = useNamespace();
  const query = { ...(namespace && { namespace }) };
  const advice = useQuery({
    queryKey: ["advice", query],
    queryFn: ({ signal }) => ask(client.GET("/api/v1/advice", { params: { query }, signal })),
    refetchInterval: refresh,
  });
  const { data, error } = advice;
  return (
    <section aria-labelledby="advice" className="app-section">
      <Title headingLevel="h2" size="lg" id="advice">
        {text.title}
      </Title>
      {error ? (
        <ErrorAlert error={error} onRetry={() => void advice.refetch()} />
      ) : data ? (
        <AdviceTable answer={data} />
      ) : (
        <LoadingLines />
      )}
    </section>
  );
}

function AdviceTable({ answer: { programs, basis, truncated } }: { answer: Schemas["ListAdviceResponse"] }) {
  const lines = linesOf(programs);
  const { right, unknown } = othersOf(programs);
  return (
    <>
      <p className="app-cause">{basis}</p>
      {lines.length ? (
        <DataTable
          label={text.title}
          rows={lines}
          rowKey={({ program, role, resource }) => `${program.namespace}/${program.program}/${role}/${resource}`}
          columns={[
            { label: text.job, cell: ({ program }) => <NewestRun program={program} /> },
            { label: text.namespace, cell: ({ program }) => program.namespace },
            { label: text.image, cell: ({ program }) => <bdi className="app-break">{program.image}</bdi> },
            { label: text.resource, cell: ({ role, resource }) => text.of(text.resources[resource], role) },
            {
              label: text.verdict,
              cell: ({ verdict }) => (
                <Label className="app-label" isCompact color={looks[verdict]}>
                  {text.verdicts[verdict]}
                </Label>
              ),
            },
            { label: text.requested, cell: (line) => (line.requested ? amount(line, line.requested) : text.notSet) },
            { label: text.peak, cell: (line) => amount(line, line.peak) },
            { label: text.suggested, cell: (line) => amount(line, line.suggested) },
            { label: text.runs, cell: ({ program }) => program.runs.length },
          ]}
        />
      ) : (
        <p>{text.none}</p>
      )}
      {right + unknown > 0 && <p className="app-cause">{text.others(right, unknown)}</p>}
      {truncated && <p className="app-cause">{text.truncated}</p>}
    </>
  );
}

function NewestRun({ program: { namespace, kind, runs } }: { program: Program }) {
  const { name } = runs[0] ?? {};
  return (
    <Link to={jobAddress({ namespace, kind, name })}>
      <bdi>{name}</bdi>
    </Link>
  );
}

function amount({ resource }: AdviceLine, quantity: string): string {
  return quantityText(quantity, resource === "memory" ? bytes : number);
}
