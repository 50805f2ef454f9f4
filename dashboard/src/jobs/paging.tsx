// Pages of the list. The service gives a mark for the next page; those of the pages before are in the address.

import { Button, Flex, FlexItem, FormSelect, FormSelectOption } from "@patternfly/react-core";
import AngleLeftIcon from "@patternfly/react-icons/dist/esm/icons/angle-left-icon";
import AngleRightIcon from "@patternfly/react-icons/dist/esm/icons/angle-right-icon";
import { number } from "../format/quantity";
import { messages } from "../messages";
import { pageSizes, type View } from "./filter";

const text = messages.jobs.page;

type Props = {
  view: View;
  change: (change: Partial<View>) => void;
  next: string | undefined;
  total: number | undefined;
};

export function JobsPaging({ view, change, next, total }: Props) {
  const first = view.pages.length * view.limit + 1;
  if (total !== undefined && total <= Math.min(...pageSizes) && !view.pages.length) return null;
  return (
    <Flex
      className="app-paging"
      justifyContent={{ default: "justifyContentFlexEnd" }}
      alignItems={{ default: "alignItemsCenter" }}
    >
      {total !== undefined && total > 0 && (
        <FlexItem>{text.range(number(first), number(Math.min(total, first + view.limit - 1)), number(total))}</FlexItem>
      )}
      <FlexItem>
        <FormSelect
          aria-label={text.size}
          value={view.limit}
          onChange={(_event, value) => change({ limit: Number(value) })}
        >
          {pageSizes.map((size) => (
            <FormSelectOption key={size} value={size} label={text.sizeOf(size)} />
          ))}
        </FormSelect>
      </FlexItem>
      <FlexItem>
        <Button
          variant="plain"
          aria-label={text.previous}
          icon={<AngleLeftIcon />}
          isDisabled={!view.pages.length}
          onClick={() => change({ pages: view.pages.slice(0, -1) })}
        />
        <Button
          variant="plain"
          aria-label={text.next}
          icon={<AngleRightIcon />}
          isDisabled={!next}
          onClick={() => next && change({ pages: [...view.pages, next] })}
        />
      </FlexItem>
    </Flex>
  );
}
