// What the job requests, beside what the service reports about quota and free resources.

import { Alert, Card, CardBody, CardFooter, CardTitle, Spinner } from "@patternfly/react-core";
import CheckCircleIcon from "@patternfly/react-icons/dist/esm/icons/check-circle-icon";
import type { Finding, Schemas } from "../api/client";
import { hasCode } from "../api/problem";
import { Facts } from "../components/facts";
import { Sentences } from "../components/sentences";
import { describeError } from "../components/states";
import { bytes, number, parseQuantity, quantityText } from "../format/quantity";
import { messages } from "../messages";
import type { Check } from "./check";

const text = messages.create;

/** What all pods request, as the service counts it: unknown until it has, never 0. */
export function TotalsCard({ requested }: { requested: Schemas["Resources"] | undefined }) {
  // The service adds up what pods request; where none requests anything, the sum is "0" or not sent.
  const amount = (quantity = "", show: (value: number) => string) =>
    quantity && parseQuantity(quantity) !== 0 ? quantityText(quantity, show) : text.totals.none;
  const rows: [string, string][] = [
    [text.totals.gpus, requested ? number(requested.gpus) : text.totals.unknown],
    [text.totals.cpu, requested ? amount(requested.cpu, number) : text.totals.unknown],
    [text.totals.memory, requested ? amount(requested.memory, bytes) : text.totals.unknown],
  ];
  return (
    <Card isCompact>
      <CardTitle component="h2">{text.totals.title}</CardTitle>
      <CardBody>
        <Facts rows={rows} />
        <p className="app-cause">{text.totals.all}</p>
      </CardBody>
    </Card>
  );
}

/** `free`: sentences about the GPUs that are free. They change on their own, so they are not announced. */
export function QuotaCard({ check, free }: { check: Check; free: readonly string[] }) {
  return (
    <Card isCompact>
      <CardTitle component="h2">
        {text.quota.title} {check.isChecking && <Spinner size="sm" aria-label={text.quota.checking} />}
      </CardTitle>
      <CardBody role="status" className="app-lines">
        <QuotaAnswer check={check} />
      </CardBody>
      {free.length > 0 && (
        <CardFooter className="app-lines">
          <Sentences lines={free} />
        </CardFooter>
      )}
    </Card>
  );
}

function QuotaAnswer({ check: { answer, error } }: { check: Check }) {
  if (hasCode(error, "QuotaExceeded")) {
    return (
      <Alert isInline isPlain variant="danger" component="h3" title={<bdi>{error.message}</bdi>}>
        {error.problem.hint && <bdi>{error.problem.hint}</bdi>}
      </Alert>
    );
  }
  if (error) return <p>{describeError(error).title}</p>;
  if (!answer) return <p>{text.quota.notChecked}</p>;
  const { availability } = answer;
  return (
    <>
      {!answer.waits.length && <Start start={availability?.start} />}
      {answer.waits.map((finding) => (
        <FindingAlert key={`${finding.reason} ${finding.message}`} finding={finding} />
      ))}
      {availability?.cost?.message && (
        <p>
          <strong>{text.quota.cost}</strong> <bdi>{availability.cost.message}</bdi>
        </p>
      )}
      {availability?.wait?.message && <p>{text.quota.wait(availability.wait.message)}</p>}
      {availability?.free && <Amounts title={text.quota.freeNow} amounts={availability.free} />}
      {availability?.queue?.free && (
        <Amounts title={text.quota.freeInQueue(availability.queue.name ?? "")} amounts={availability.queue.free} />
      )}
    </>
  );
}

/** When the job can start. What the person may not read is unknown, not free. */
function Start({ start }: { start: string | undefined }) {
  if (start === "Now")
    return (
      <p>
        <CheckCircleIcon className="app-good" /> {text.quota.fits}. {text.quota.fitsNow}
      </p>
    );
  return (
    <p>
      {text.quota.fits}. {start === "WhenResumed" ? text.quota.whenResumed : text.quota.unknown}
    </p>
  );
}

function Amounts({ title, amounts }: { title: string; amounts: Schemas["Resources"] }) {
  return (
    <p>
      <strong>{title}</strong> {amountsText(amounts)}
    </p>
  );
}

/** `2 GPUs, 1.5 CPUs, 64 GiB`; what the service did not send is unknown, never 0. */
export function amountsText({ gpus, cpu, memory }: Schemas["Resources"]): string {
  const amount = (quantity: string | undefined, show: (value: number) => string) =>
    quantity ? quantityText(quantity, show) : undefined;
  return text.quota.amounts(gpus, amount(cpu, number), amount(memory, bytes));
}

/** What blocks a job, and what to do. */
export function FindingAlert({ finding }: { finding: Finding }) {
  return (
    <Alert
      isInline
      isPlain
      variant={finding.weight === "Refused" ? "danger" : "warning"}
      component="h3"
      title={<bdi>{finding.message}</bdi>}
    >
      {finding.advice && (
        <p className="app-sentence">
          <bdi>{finding.advice}</bdi>
        </p>
      )}
    </Alert>
  );
}
