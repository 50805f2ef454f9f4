// What former runs of the same program used, beside the fields that say what to request.

import { Button, Card, CardBody, CardTitle, FormHelperText, HelperText, HelperTextItem } from "@patternfly/react-core";
import { Link } from "react-router-dom";
import type { Schemas } from "../api/client";
import { Facts } from "../components/facts";
import { bytes, number, quantityText } from "../format/quantity";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { setAt, textAt, type Update } from "./fields";

const text = messages.create.advice;
type Program = Schemas["ProgramAdvice"];

/** The runs that are named. */
const shownRuns = 5;

/** The advice about the pods of a role. */
export function adviceOf(program: Program | undefined, role: string): Schemas["RoleAdvice"] | undefined {
  return program?.roles.find((advice) => advice.role === role);
}

/** Requests another amount: where a request of its own is set, there; else what the pods may use at most. */
export function takeAdvice(role: "Worker" | "Launcher", resource: "cpu" | "memory", amount: string): Update {
  const request = `${role.toLowerCase()}.requests.${resource}`;
  const most = role === "Worker" ? resource : `launcher.limits.${resource}`;
  return (fields) => setAt(textAt(fields, request) ? request : most, amount)(fields);
}

/** Below a field: why another amount would be better, and a button that takes it over. */
export function AdviceHint({
  advice,
  onTake,
}: {
  advice: Schemas["RequestAdvice"] | undefined;
  onTake: (amount: string) => void;
}) {
  const { verdict, suggested, message } = advice ?? {};
  if (!suggested) return null;
  return (
    <FormHelperText>
      <HelperText>
        <HelperTextItem variant={verdict === "TooLittle" ? "warning" : "indeterminate"}>
          <bdi>{message}</bdi>{" "}
          <Button variant="link" isInline onClick={() => onTake(suggested)}>
            {text.take(suggested)}
          </Button>
        </HelperTextItem>
      </HelperText>
    </FormHelperText>
  );
}

/** What the runs used, role by role, and which runs they were. */
export function AdviceCard({ program }: { program: Program }) {
  const { namespace = "", kind = "", runs } = program;
  const rows = program.roles.flatMap((advice) => linesOf(advice));
  return (
    <Card isCompact>
      <CardTitle component="h2">{text.title}</CardTitle>
      <CardBody>
        {rows.length > 0 && <Facts rows={rows} />}
        <p className="app-cause">{rows.length ? text.basis(runs.length) : text.tooFew(runs.length)}</p>
        <ul className="app-runs">
          {runs.slice(0, shownRuns).map(({ name = "", uid }) => (
            <li key={uid}>
              <Link to={jobAddress({ namespace, kind, name })}>
                <bdi>{name}</bdi>
              </Link>
            </li>
          ))}
        </ul>
      </CardBody>
    </Card>
  );
}

/** The highest use of each resource of a role, as far as it is known. */
export function linesOf({ role = "", memory, cpu, meanCpu }: Schemas["RoleAdvice"]): [string, string][] {
  const lines: [string, string][] = [];
  if (memory?.peak) lines.push([text.memory(role), text.atMost(quantityText(memory.peak, bytes))]);
  if (cpu?.peak) {
    const peak = quantityText(cpu.peak, number);
    const use = meanCpu ? text.atMostAndMean(peak, quantityText(meanCpu, number)) : text.atMost(peak);
    lines.push([text.cpu(role), use]);
  }
  return lines;
}
