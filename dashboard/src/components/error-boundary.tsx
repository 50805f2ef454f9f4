// Shows an error of the page itself in place of the page, so that navigation still works.

import {
  Button,
  CodeBlock,
  CodeBlockCode,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  PageSection,
} from "@patternfly/react-core";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import PluggedIcon from "@patternfly/react-icons/dist/esm/icons/plugged-icon";
import { Component, type ReactNode } from "react";
import { messages } from "../messages";
import { returnsByItself, useReturn } from "./use-return";

const text = messages.common;

export class ErrorBoundary extends Component<{ children: ReactNode }, { error?: Error }> {
  override state: { error?: Error } = {};

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    return (
      <PageSection>
        <Failed error={error} />
      </PageSection>
    );
  }
}

/** In place of a page that cannot be shown. One whose code could not be fetched has no error of its own. */
export function Failed({ error }: { error: unknown }) {
  return isLoadFailure(error) ? <LoadFailed /> : <Crashed error={error} />;
}

/**
 * Browsers have no name for the error of a dynamic import, only a message each; all are TypeErrors. Bundlers have a name, and
 * Vite a message for the styles of a page.
 */
function isLoadFailure(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (error.name === "ChunkLoadError" || error.message.startsWith("Unable to preload CSS")) return true;
  return error instanceof TypeError && /module|import/i.test(error.message);
}

function Crashed({ error }: { error: unknown }) {
  return (
    <EmptyState titleText={text.crashed.title} headingLevel="h1" icon={ExclamationCircleIcon} status="danger">
      <EmptyStateBody>{text.crashed.body}</EmptyStateBody>
      <EmptyStateFooter>
        <Reload />
        <CodeBlock>
          <CodeBlockCode>{String(error)}</CodeBlockCode>
        </CodeBlock>
      </EmptyStateFooter>
    </EmptyState>
  );
}

/** What was typed is kept: a draft survives a reload. */
function LoadFailed() {
  useReturn();
  return (
    <EmptyState titleText={text.notLoaded.title} headingLevel="h1" icon={PluggedIcon} status="warning">
      <EmptyStateBody>
        {text.notLoaded.body} {returnsByItself ? text.notLoaded.byItself : text.notLoaded.reload} {text.notLoaded.kept}
      </EmptyStateBody>
      <EmptyStateFooter>
        <Reload />
      </EmptyStateFooter>
    </EmptyState>
  );
}

function Reload() {
  return (
    <EmptyStateActions>
      <Button onClick={() => window.location.reload()}>{text.reload}</Button>
    </EmptyStateActions>
  );
}
