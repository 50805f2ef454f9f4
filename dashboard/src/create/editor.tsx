// The page on which a job is written: form and YAML, what the service makes of them, and the creation.

import { Alert, Button, PageSection, Stack, StackItem } from "@patternfly/react-core";
import LockIcon from "@patternfly/react-icons/dist/esm/icons/lock-icon";
import { useMutation } from "@tanstack/react-query";
import { useCallback, useMemo, useRef, useState } from "react";
import { useNavigate } from "react-router-dom";
import { ask, client, type JobRef, type Kind } from "../api/client";
import { allowed, useIdentity } from "../api/identity";
import type { FieldFault } from "../api/problem";
import { PageHeader } from "../components/page-header";
import { ErrorAlert } from "../components/states";
import { useToast } from "../components/toasts";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";
import { faultsOf, useCheck } from "./check";
import { pathsOf } from "./controls";
import { CopyMenu } from "./copy-menu";
import { fieldOf } from "./faults";
import { kindOfFields, valueAt } from "./fields";
import { labelOf } from "./form-context";
import { kindWritten, type Model, type RenderBody, sourceOf } from "./model";
import { type Page, Panes } from "./panes";
import { SaveTemplate } from "./save-template";
import { type Rendering, type Store, useRendering, useStore } from "./use-model";
import { readText, withNamespace } from "./yaml-text";

const text = messages.create;

type Props = { origin: string; beginning: string | undefined; title: string };

export function Editor({ origin, beginning, title }: Props) {
  const navigate = useNavigate();
  const { show } = useToast();
  const store = useStore(origin, beginning);
  const [asked, setAsked] = useState(false);
  const { page, blocked, user, mayCreate } = usePage(store, asked);
  const { namespace, kind, check, rendering } = page;
  const create = useCreate(namespace, rendering.source, (job) => {
    store.drop();
    show(text.created(job.name ?? ""));
    void navigate(jobAddress(job));
  });
  const refused = create.error ?? (asked ? check.error : undefined);
  const isReadable = !("fault" in rendering.written);
  return (
    <>
      <PageHeader title={title} actions={<CopyMenu read={rendering.settle} namespace={namespace} />} />
      <PageSection isFilled>
        <Stack hasGutter>
          {store.isRestored && <Restored onStartOver={store.drop} />}
          {!mayCreate && <Forbidden user={user} kind={kind} namespace={namespace} />}
          <StackItem isFilled>
            <Panes {...page} />
          </StackItem>
          {asked && blocked.length > 0 && <Blocked faults={blocked} />}
          {refused !== undefined && (
            <StackItem>
              <ErrorAlert error={refused} title={create.error ? text.notCreated : undefined} />
            </StackItem>
          )}
          <StackItem>
            <div className="app-actions">
              <Button
                isDisabled={!mayCreate || create.isPending || !isReadable || !namespace}
                isLoading={create.isPending}
                onClick={() => {
                  setAsked(true);
                  if (!blocked.length) create.mutate();
                }}
              >
                {text.create}
              </Button>
              <SaveTemplate namespace={namespace} read={rendering.settle} isDisabled={!namespace || !kind} />
              <Button variant="link" onClick={() => void navigate("/jobs")}>
                {text.cancel}
              </Button>
              {!namespace && <span>{text.namespaceFirst}</span>}
            </div>
          </StackItem>
        </Stack>
      </PageSection>
    </>
  );
}

type PageState = { page: Page; blocked: FieldFault[]; user: string; mayCreate: boolean };

/** Everything that the panes show of what is being written. */
function usePage(store: Store, asked: boolean): PageState {
  const { model } = store;
  const [chosen] = useNamespace();
  const [typed, setTyped] = useState<string>();
  const own = useMemo(() => namespaceIn(model.text), [model.text]);
  const namespace = typed ?? (own || chosen);
  const rendering = useRendering(store, namespace);
  const kind = model.edited ? kindWritten(rendering.written) : model.fields && kindOfFields(model.fields);
  const identity = useIdentity(namespace, kind);
  const mayCreate = !namespace || allowed(identity.data, "create") !== false;
  const [blocked, block] = useBlocked();
  const { check, faults } = useChecked(model, rendering, namespace, mayCreate && kind !== undefined);
  const onNamespace = (next: string) => {
    setTyped(next);
    if (own) store.type(withNamespace(model.text, next));
  };
  const shown = asked ? faults : faults.filter((fault) => !isUntouched(fault, model));
  const page = { store, rendering, namespace, onNamespace, kind, block, check, faults: shown };
  return { page, blocked, user: identity.data?.user ?? "", mayCreate };
}

/** What the service says about the job; where it cannot even render what was typed, why. */
function useChecked(model: Model, rendering: Rendering, namespace: string, mayCheck: boolean) {
  const { isCurrent, error } = rendering;
  const hasBegun = model.edited || !model.isUnread;
  // Fields are checked as they are; a manifest is, once it has them.
  const canCheck = mayCheck && hasBegun && (isCurrent || !model.edited);
  const check = useCheck(namespace, canCheck ? sourceOf(model) : undefined);
  const unrendered = faultsOf(error);
  const isUnknown = !mayCheck || (!canCheck && error !== undefined);
  const away = error !== undefined && !unrendered.length ? error : undefined;
  return {
    check: { ...check, answer: isUnknown ? undefined : check.answer, error: check.error ?? away },
    faults: canCheck || !unrendered.length ? check.faults : unrendered,
  };
}

function namespaceIn(text: string): string {
  const written = readText(text);
  return "fault" in written ? "" : written.namespace;
}

/** Whether a fault is about a field that is still empty: it is shown once the person asks to create the job. */
function isUntouched({ path = "" }: FieldFault, { fields }: Model): boolean {
  if (!fields) return false;
  const field = fieldOf(path, fields, pathsOf(kindOfFields(fields))) ?? "";
  const value = valueAt(fields, field);
  const isEmpty = value === undefined || value === "" || (Array.isArray(value) && !value.length);
  return isEmpty && ["name", "image", "command", "runtime"].includes(field);
}

/** Why fields cannot be sent, by their paths. */
function useBlocked(): [FieldFault[], (path: string, why: string | undefined) => void] {
  const [blocked, setBlocked] = useState<Readonly<Record<string, string>>>({});
  const block = useCallback((path: string, why: string | undefined) => {
    setBlocked((before) => {
      if (before[path] === why) return before;
      const { [path]: _gone, ...others } = before;
      return why === undefined ? others : { ...others, [path]: why };
    });
  }, []);
  return [Object.entries(blocked).map(([path, fault]) => ({ path, fault })), block];
}

/** One key for each job: a request that is repeated after a broken connection creates no second one. */
function useCreate(namespace: string, read: () => Promise<RenderBody>, onCreated: (job: JobRef) => void) {
  const key = useRef({ source: "", value: "" });
  return useMutation({
    mutationFn: async () => {
      const body = await read();
      const source = JSON.stringify([namespace, body]);
      if (key.current.source !== source) key.current = { source, value: crypto.randomUUID() };
      const { job } = await ask(
        client.POST("/api/v1/namespaces/{namespace}/jobs", {
          params: { path: { namespace } },
          body: { ...body, idempotencyKey: key.current.value },
        }),
      );
      return job ?? {};
    },
    onSuccess: onCreated,
  });
}

function Restored({ onStartOver }: { onStartOver: () => void }) {
  const startOver = (
    <Button variant="link" isInline onClick={onStartOver}>
      {text.startOver}
    </Button>
  );
  return (
    <StackItem>
      <Alert isInline component="h2" variant="info" title={text.restored} actionLinks={startOver} />
    </StackItem>
  );
}

type ForbiddenProps = { user: string; kind: Kind | undefined; namespace: string };

function Forbidden({ user, kind = "mpijob", namespace }: ForbiddenProps) {
  return (
    <StackItem>
      <Alert isInline component="h2" variant="warning" customIcon={<LockIcon />} title={text.forbidden.title}>
        <p>{text.forbidden.body(user, messages.common.kinds[kind], namespace)}</p>
        <p>{text.forbidden.hint}</p>
      </Alert>
    </StackItem>
  );
}

/** What has to be corrected before anything can be sent. */
function Blocked({ faults }: { faults: readonly FieldFault[] }) {
  return (
    <StackItem>
      <Alert isInline isLiveRegion component="h2" variant="danger" title={text.check.blocked}>
        {faults.map(({ path = "", fault }) => (
          <p key={path}>
            <bdi>
              <strong>{labelOf(path)}</strong> {fault}
            </bdi>
          </p>
        ))}
      </Alert>
    </StackItem>
  );
}
