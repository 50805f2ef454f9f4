import { Button, type ButtonProps } from "@patternfly/react-core";
import { Link, type To } from "react-router-dom";

type Props = Omit<ButtonProps, "component" | "onClick"> & { to: To; "data-create-link"?: boolean };

/**
 * A link that looks like a button. What it is made of is the same in each rendering: a component that is written where it is
 * used would be another one each time, and a click between two renderings would be lost.
 */
export function LinkButton({ to, ...props }: Props) {
  const address = { to };
  return <Button {...props} {...address} component={Link} />;
}
