// The decision guide: which kind of job fits a program.

import {
  Card,
  CardBody,
  CardFooter,
  CardTitle,
  Content,
  Gallery,
  Hint,
  HintBody,
  HintTitle,
} from "@patternfly/react-core";
import { useLocation } from "react-router-dom";
import type { Identity, Kind } from "../api/client";
import { useIdentity } from "../api/identity";
import { LinkButton } from "../components/link-button";
import { messages } from "../messages";
import { ChooseFile } from "./file-drop";

const text = messages.create.guide;
const order = ["mpijob", "pytorchjob", "tfjob", "trainjob", "custom"] as const satisfies readonly (Kind | "custom")[];

export function Guide() {
  const { search } = useLocation();
  const kinds = useIdentity().data?.kinds;
  return (
    <>
      <Gallery hasGutter minWidths={{ default: "260px" }}>
        {order.map((kind) => (
          <Card key={kind} isFullHeight>
            <CardTitle component="h2">{text.kinds[kind].title}</CardTitle>
            <CardBody>
              <Content component="p">{text.kinds[kind].when}</Content>
              <Content component="small">{text.kinds[kind].how}</Content>
            </CardBody>
            <CardFooter>
              <LinkButton variant="secondary" to={address(kind, search)}>
                {text.choose(text.kinds[kind].title)}
              </LinkButton>
              {isMissing(kinds, kind) && <p className="job-note">{text.notInstalled}</p>}
            </CardFooter>
          </Card>
        ))}
        <Card isFullHeight>
          <CardTitle component="h2">{text.file}</CardTitle>
          <CardBody>{text.drop}</CardBody>
          <CardFooter>
            <ChooseFile />
          </CardFooter>
        </Card>
      </Gallery>
      <Hint className="app-hint">
        <HintTitle>{text.unsure}</HintTitle>
        <HintBody>
          <p>{text.unsureBody}</p>
          <p>{text.former}</p>
        </HintBody>
      </Hint>
    </>
  );
}

/** Whether the cluster is known not to have a kind. */
export function isMissing(kinds: Identity["kinds"] | undefined, kind: string): boolean {
  return Boolean(kinds?.some((one) => one.kind === kind && one.state === "NotInstalled"));
}

function address(kind: Kind | "custom", search: string): string {
  const query = new URLSearchParams(search);
  query.set("type", kind);
  return `job?${query}`;
}
