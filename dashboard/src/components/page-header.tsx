// The head of a page: its title, also the document's, and its actions. Focus moves here on navigation.

import { Content, Flex, FlexItem, PageSection, Title } from "@patternfly/react-core";
import { type ReactNode, useEffect, useRef } from "react";
import { useLocation, useNavigationType } from "react-router-dom";
import { messages } from "../messages";

type Props = {
  title: string;
  children?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  breadcrumb?: ReactNode;
  badge?: ReactNode;
};

export function PageHeader({ title, description, actions, breadcrumb, badge, children }: Props) {
  const words = useRef<HTMLElement>(null);
  useDocumentTitle(title);
  useFocusOnNavigation(words);
  return (
    <PageSection className="app-beside">
      {breadcrumb}
      <Flex justifyContent={{ default: "justifyContentSpaceBetween" }} alignItems={{ default: "alignItemsCenter" }}>
        <FlexItem>
          <Flex alignItems={{ default: "alignItemsCenter" }} columnGap={{ default: "columnGapSm" }}>
            <Title headingLevel="h1" tabIndex={-1} className="app-title">
              <bdi ref={words}>{title}</bdi>
            </Title>
            {badge}
          </Flex>
          {description && <Content component="p">{description}</Content>}
        </FlexItem>
        {actions && <FlexItem>{actions}</FlexItem>}
      </Flex>
      {children}
    </PageSection>
  );
}

export function useDocumentTitle(title: string): void {
  useEffect(() => {
    document.title = messages.common.documentTitle(title);
  }, [title]);
}

/** Screen readers and keyboards continue at the new page's title; not on the first load, and not when only the query changes. */
function useFocusOnNavigation(words: React.RefObject<HTMLElement | null>): void {
  const { key } = useLocation();
  const type = useNavigationType();
  const first = useRef(key === "default" || type === "POP");
  useEffect(() => {
    // PatternFly's title passes on no ref.
    if (!first.current) words.current?.closest("h1")?.focus();
    first.current = true;
  }, [words]);
}
