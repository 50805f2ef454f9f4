// What is said about the whole job rather than one of its fields.

import { Alert } from "@patternfly/react-core";
import type { Kind } from "../api/client";
import type { FieldFault } from "../api/problem";
import { FaultList, lastName } from "../components/faults";
import { messages } from "../messages";
import { fieldNamed } from "./faults";
import { labelOf } from "./form-context";
import { leadable } from "./lead";
import type { Rendering } from "./use-model";

const text = messages.create;

type Props = { rendering: Rendering; kind: Kind | undefined; hasFields: boolean; faults: readonly FieldFault[] };

/** What the form calls the field at a path, or the path's last name. */
export function labelAt(path: string): string {
  const field = fieldNamed(path);
  return field === undefined ? lastName(path) : labelOf(field);
}

/** Why there is no form, and the faults that no field shows. */
export function Faults({ rendering: { written }, kind, hasFields, faults }: Props) {
  if ("fault" in written) {
    const { line, message } = written.fault;
    return (
      <Alert
        {...leadable}
        isInline
        component="h2"
        variant="warning"
        title={<bdi>{text.yaml.fault(line, message)}</bdi>}
      >
        {text.yaml.faultHint}
      </Alert>
    );
  }
  if (!kind) {
    return (
      <Alert
        {...leadable}
        isInline
        component="h2"
        variant="info"
        title={<bdi>{text.yaml.unknownKind(written.kind)}</bdi>}
      >
        {text.yaml.unknownHint}
      </Alert>
    );
  }
  return (
    <>
      {!hasFields && (
        <Alert isInline component="h2" variant="info" title={text.yaml.noFields} className="app-faults">
          {text.yaml.noFieldsHint}
        </Alert>
      )}
      <FieldFaults faults={faults} />
    </>
  );
}

export function FieldFaults({ faults }: { faults: readonly FieldFault[] }) {
  if (!faults.length) return null;
  return (
    <Alert
      {...leadable}
      isInline
      component="h2"
      variant="danger"
      title={text.check.faults(faults.length)}
      className="app-faults"
    >
      <FaultList faults={faults} nameOf={labelAt} />
    </Alert>
  );
}

/** A warning that is about a field begins with the field's path. */
const withPath = /^((?:spec|metadata)[.[][^\s:]*): (.*)$/s;

export function Warnings({ warnings }: { warnings: readonly string[] }) {
  if (!warnings.length) return null;
  const faults = warnings.map((warning): FieldFault => {
    const [, path = "", fault = warning] = withPath.exec(warning) ?? [];
    return { path, fault };
  });
  return (
    <Alert isInline component="h2" variant="info" title={text.check.warnings}>
      <FaultList faults={faults} nameOf={labelAt} />
    </Alert>
  );
}
