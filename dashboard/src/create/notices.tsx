// What is said about the whole job rather than one of its fields.

import { Alert, List, ListItem } from "@patternfly/react-core";
import type { Kind } from "../api/client";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";
import type { Rendering } from "./use-model";

const text = messages.create;

type Props = { rendering: Rendering; kind: Kind | undefined; hasFields: boolean; faults: readonly FieldFault[] };

/** Why there is no form, and the faults that no field shows. */
export function Faults({ rendering: { written }, kind, hasFields, faults }: Props) {
  if ("fault" in written) {
    const { line, message } = written.fault;
    return (
      <Alert isInline component="h2" variant="warning" title={<bdi>{text.yaml.fault(line, message)}</bdi>}>
        {text.yaml.faultHint}
      </Alert>
    );
  }
  if (!kind) {
    return (
      <Alert isInline component="h2" variant="info" title={<bdi>{text.yaml.unknownKind(written.kind)}</bdi>}>
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
    <Alert isInline component="h2" variant="danger" title={text.check.faults(faults.length)} className="app-faults">
      <List>
        {faults.map(({ path, fault, fix }) => (
          <ListItem key={`${path} ${fault}`}>
            <bdi>
              <strong>{path}</strong> {fault}
              {fix && `: ${fix}`}
            </bdi>
          </ListItem>
        ))}
      </List>
    </Alert>
  );
}

export function Warnings({ warnings }: { warnings: readonly string[] }) {
  if (!warnings.length) return null;
  return (
    <Alert isInline component="h2" variant="info" title={text.check.warnings}>
      <List>
        {warnings.map((warning) => (
          <ListItem key={warning}>
            <bdi className="app-break">{warning}</bdi>
          </ListItem>
        ))}
      </List>
    </Alert>
  );
}
