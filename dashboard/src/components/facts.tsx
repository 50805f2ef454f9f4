// Terms with their values, one pair in a line.

import {
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
} from "@patternfly/react-core";
import type { ReactNode } from "react";

type Props = {
  rows: readonly (readonly [term: string, value: ReactNode])[];
  termWidth?: string;
};

export function Facts({ rows, termWidth }: Props) {
  return (
    <DescriptionList isHorizontal isCompact termWidth={termWidth}>
      {rows.map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription>{value}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}
