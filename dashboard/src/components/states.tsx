// The states in which a page, or a part of it, has nothing to show: loading, an error of some class, empty.

import {
  Alert,
  AlertActionLink,
  Button,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  Skeleton,
} from "@patternfly/react-core";
import BanIcon from "@patternfly/react-icons/dist/esm/icons/ban-icon";
import ExclamationCircleIcon from "@patternfly/react-icons/dist/esm/icons/exclamation-circle-icon";
import LockIcon from "@patternfly/react-icons/dist/esm/icons/lock-icon";
import PluggedIcon from "@patternfly/react-icons/dist/esm/icons/plugged-icon";
import SearchIcon from "@patternfly/react-icons/dist/esm/icons/search-icon";
import type { ComponentType, ReactNode } from "react";
import { DisconnectedError, hasCode, ProblemError } from "../api/problem";
import { signInAddress, wasSignedIn } from "../api/session";
import { capitalized } from "../format/words";
import { messages } from "../messages";
import { FaultList } from "./faults";

const text = messages.common;

type Look = { icon: ComponentType; title: string; body: string; status?: "danger" | "warning" | "info" };

/** What to say about an error; every page says the same about the same error. */
export function describeError(error: unknown): Look {
  if (error instanceof DisconnectedError) return { icon: PluggedIcon, ...text.disconnected, status: "warning" };
  if (hasCode(error, "Unavailable"))
    return { icon: PluggedIcon, title: text.disconnected.title, body: error.message, status: "warning" };
  if (hasCode(error, "NotAllowed"))
    return {
      icon: LockIcon,
      title: text.forbidden.title,
      body: error.message || text.forbidden.body,
      status: "warning",
    };
  if (hasCode(error, "Unauthenticated")) return { icon: LockIcon, ...signedOut() };
  if (hasCode(error, "NotFound"))
    return { icon: SearchIcon, title: text.gone.title, body: error.message || text.gone.body };
  if (hasCode(error, "TooManyRequests")) return { icon: BanIcon, ...text.tooMany, status: "warning" };
  const body = error instanceof Error && error.message ? error.message : text.failed.unknown;
  return { icon: ExclamationCircleIcon, title: text.failed.title, body, status: "danger" };
}

/** Somebody who never was here is not told that a session has ended. */
function signedOut(): Omit<Look, "icon"> {
  const { title, body, first } = text.unauthenticated;
  return wasSignedIn() ? { title, body, status: "warning" } : { ...first, status: "info" };
}

/** In place of a page that could not be loaded. */
export function ErrorState({
  error,
  onRetry,
  actions,
  headingLevel = "h2",
}: {
  error: unknown;
  onRetry?: () => void;
  /** What else can be done, beside trying again. */
  actions?: ReactNode;
  headingLevel?: "h1" | "h2" | "h3";
}) {
  const { icon, title, status } = describeError(error);
  return (
    <EmptyState titleText={title} headingLevel={headingLevel} icon={icon} status={status}>
      <EmptyStateBody>
        <Body error={error} />
        <Hint error={error} />
      </EmptyStateBody>
      {(onRetry || actions || hasCode(error, "Unauthenticated")) && (
        <EmptyStateFooter>
          <EmptyStateActions>
            {hasCode(error, "Unauthenticated") && (
              <Button component="a" href={signInAddress()}>
                {text.unauthenticated.signIn}
              </Button>
            )}
            {onRetry && (
              <Button variant="secondary" onClick={onRetry}>
                {text.retry}
              </Button>
            )}
            {actions}
          </EmptyStateActions>
        </EmptyStateFooter>
      )}
    </EmptyState>
  );
}

/** Above something that is still shown: a list that could not be loaded again, an action that was refused. */
export function ErrorAlert({
  error,
  title,
  onRetry,
  children,
}: {
  error: unknown;
  title?: string;
  onRetry?: () => void;
  children?: ReactNode;
}) {
  const described = describeError(error);
  return (
    <Alert
      isInline
      component="h2"
      // What the alert says is announced, wherever the focus is.
      isLiveRegion
      variant={described.status ?? "danger"}
      title={title ?? described.title}
      actionLinks={
        hasCode(error, "Unauthenticated") ? (
          <AlertActionLink component="a" href={signInAddress()}>
            {text.unauthenticated.signIn}
          </AlertActionLink>
        ) : (
          onRetry && <AlertActionLink onClick={onRetry}>{text.retry}</AlertActionLink>
        )
      }
    >
      <Body error={error} title={title} />
      <Hint error={error} />
      {children}
    </Alert>
  );
}

/** What an error is about: its faults one by one, which its message has with their paths, or its message. */
function Body({ error, title }: { error: unknown; title?: string }) {
  const described = describeError(error);
  const faults = error instanceof ProblemError ? error.problem.fields : [];
  const isListed = faults.length > 0 && faults.every(({ fault = "" }) => described.body.includes(fault));
  return (
    <>
      {!isListed && (
        <bdi>
          {title && error instanceof DisconnectedError ? `${described.title}. ${described.body}` : described.body}
        </bdi>
      )}
      {faults.length > 0 && <FaultList faults={faults} />}
    </>
  );
}

function Hint({ error }: { error: unknown }) {
  // Who is signed out signs in; what the service says is for programs.
  if (!(error instanceof ProblemError) || error.code === "Unauthenticated") return null;
  const { hint } = error.problem;
  if (!hint) return null;
  return (
    <p>
      <bdi>{capitalized(hint)}</bdi>
    </p>
  );
}

export function NothingHere({
  title,
  children,
  actions,
  icon = SearchIcon,
}: {
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
  icon?: ComponentType;
}) {
  return (
    <EmptyState titleText={title} headingLevel="h2" icon={icon}>
      {children && <EmptyStateBody>{children}</EmptyStateBody>}
      {actions && (
        <EmptyStateFooter>
          <EmptyStateActions>{actions}</EmptyStateActions>
        </EmptyStateFooter>
      )}
    </EmptyState>
  );
}

/** Holds the place of lines that are being loaded, so that the layout does not jump. */
export function LoadingLines({ lines = 5 }: { lines?: number }) {
  return (
    <div role="status" aria-label={text.loading} className="app-loading">
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all alike.
        <Skeleton key={line} width={`${92 - ((line * 17) % 40)}%`} aria-hidden />
      ))}
    </div>
  );
}
