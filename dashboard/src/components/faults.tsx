// Faults of fields: each begins with what people call the field. Where it is in a manifest is in the details.

import { ExpandableSection, List, ListItem } from "@patternfly/react-core";
import type { ReactNode } from "react";
import type { FieldFault } from "../api/problem";
import { messages } from "../messages";

const text = messages.common.faults;

type Props = {
  faults: readonly FieldFault[];
  /** What people call the field at a path. */
  nameOf?: (path: string) => string;
  /** The name as it is shown, for example as a link to the field. */
  show?: (path: string, name: string) => ReactNode;
};

export function FaultList({ faults, nameOf = lastName, show = (_path, name) => name }: Props) {
  const named = faults.map(({ path = "", ...fault }) => ({ ...fault, path, name: nameOf(path) }));
  // The same may be wrong with pods of several roles.
  const first = (one: (typeof named)[number]) =>
    named.find(({ name, fault, fix }) => name === one.name && fault === one.fault && fix === one.fix);
  const paths = [...new Set(faults.map(({ path = "" }) => path))].filter((path) => path !== nameOf(path));
  return (
    <>
      <List>
        {named
          .filter((one) => one === first(one))
          .map(({ path, name, fault, fix }) => (
            <ListItem key={`${path} ${fault}`}>
              <bdi className="app-break">
                {name && <strong>{show(path, name)} </strong>}
                {fault}
                {fix && `: ${fix}`}
              </bdi>
            </ListItem>
          ))}
      </List>
      <Paths paths={paths} nameOf={nameOf} />
    </>
  );
}

/** Where fields are in a manifest, for those who write one. */
export function Paths({ paths, nameOf = lastName }: { paths: readonly string[]; nameOf?: (path: string) => string }) {
  if (!paths.length) return null;
  return (
    <ExpandableSection toggleText={text.details} className="app-cause">
      {paths.map((path) => (
        <p key={path} className="app-break">
          <bdi>
            {nameOf(path)}: <code>{path}</code>
          </bdi>
        </p>
      ))}
    </ExpandableSection>
  );
}

/** The last name of a path, with the role whose pods it is about: `hostNetwork (Worker)`. */
export function lastName(path: string): string {
  const [, bracketed, plain = path] = /(?:\[([^\]]*[^\]\d][^\]]*)\]|([^.[\]]+)(?:\[\d+\])*)$/.exec(path) ?? [];
  const [, role] = /^spec\.\w+ReplicaSpecs\[(\w+)\]\./.exec(path) ?? [];
  const name = bracketed ?? plain;
  return role ? text.ofRole(name, role) : name;
}
