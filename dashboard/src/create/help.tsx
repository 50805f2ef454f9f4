// The help of a field, and whether it helped.

import { Button, Content, Flex, Popover, Title } from "@patternfly/react-core";
import OutlinedQuestionCircleIcon from "@patternfly/react-icons/dist/esm/icons/outlined-question-circle-icon";
import { memo, useState } from "react";
import { messages } from "../messages";
import { labelOf, nameOf } from "./form-context";
import { referenceOf } from "./reference";

const text = messages.create;

export const FieldHelp = memo(function FieldHelp({ at }: { at: string }) {
  const label = labelOf(at);
  const { help } = text.fields[nameOf(at)];
  if (!help) return null;
  return (
    <Popover
      aria-label={text.help(label)}
      // A header of the popover would be a second banner of the page.
      bodyContent={
        <>
          <Title headingLevel="h2" size="md">
            {label}
          </Title>
          <Content component="p">{help}</Content>
          <a href={referenceOf(at)} target="_blank" rel="noreferrer">
            {messages.common.readMore}
          </a>
        </>
      }
      footerContent={<Helpful label={label} />}
    >
      <Button
        variant="plain"
        size="sm"
        hasNoPadding
        aria-label={text.help(label)}
        icon={<OutlinedQuestionCircleIcon />}
        className="app-help"
      />
    </Popover>
  );
});

/** Nothing is sent anywhere unless the person follows the link. */
function Helpful({ label }: { label: string }) {
  const [answer, setAnswer] = useState<"yes" | "no">();
  const feedback = `${messages.common.feedbackAddress}/new?${new URLSearchParams({ title: text.feedbackTitle(label) })}`;
  return (
    <Flex columnGap={{ default: "columnGapSm" }} alignItems={{ default: "alignItemsCenter" }} role="status">
      {answer === "yes" && text.helpful.thanks}
      {answer === "no" && (
        <a href={feedback} target="_blank" rel="noreferrer">
          {text.helpful.tell}
        </a>
      )}
      {!answer && (
        <>
          <span>{text.helpful.question}</span>
          <Button variant="link" size="sm" onClick={() => setAnswer("yes")}>
            {text.helpful.yes}
          </Button>
          <Button variant="link" size="sm" onClick={() => setAnswer("no")}>
            {text.helpful.no}
          </Button>
        </>
      )}
    </Flex>
  );
}
