// The page on which a job is written: form and YAML, what the service makes of them, and the creation.

import { Alert, Button, PageSection, Stack, StackItem } from "@patternfly/react-core";
import LockIcon from "@patternfly/react-icons/dist/esm/icons/lock-icon";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useNavigate } from "react-router-dom";
import type { Kind } from "../api/client";
import { allowed, useIdentity } from "../api/identity";
import type { FieldFault } from "../api/problem";
import { FaultList } from "../components/faults";
import { ErrorAlert } from "../components/states";
import { useToast } from "../components/toasts";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { rememberNamespaceOfNew, useNamespacesOfNew } from "../shell/namespace";
import { faultsOf, useCheck } from "./check";
import { pathsOf } from "./controls";
import { CopyMenu } from "./copy-menu";
import { fieldOf } from "./faults";
import { kindOfFields, valueAt } from "./fields";
import { CreateHeader } from "./header";
import { leadable, leadTo, useLead } from "./lead";
import { kindWritten, type Model, sourceOf, unreadable } from "./model";
import { labelAt } from "./notices";
import { type Page, Panes } from "./panes";
import { SaveTemplate } from "./save-template";
import { useCreate } from "./use-create";
import { type Rendering, type Store, useRendering, useStore } from "./use-model";
import { useOffers } from "./use-offers";
import { readText, withNamespace } from "./yaml-text";

const text = messages.create;

type Props = { origin: string; beginning: string | undefined; title: string | undefined };

export function Editor({ origin, beginning, title }: Props) {
  const navigate = useNavigate();
  const { show } = useToast();
  const store = useStore(origin, beginning);
  const [asked, setAsked] = useState(false);
  const { page: found, user, mayCreate } = usePage(store);
  const { namespace, kind, check, rendering, blocked } = found;
  const create = useCreate(store, namespace, rendering.source, (job) => {
    rememberNamespaceOfNew(namespace);
    store.drop();
    show(text.created(job.name ?? ""));
    void navigate(jobAddress(job));
  });
  const page = { ...found, faults: shownFaults(found, asked, faultsOf(create.error)) };
  const faults = [...blocked, ...page.faults];
  const lead = useLead(fieldsOf(faults, kind));
  const refused = create.error ?? (asked ? check.error : undefined);
  // biome-ignore lint/correctness/useExhaustiveDependencies: each refusal leads to what is wrong, once.
  useEffect(() => {
    if (faultsOf(create.error).length) lead();
  }, [create.error]);
  const submit = () => {
    setAsked(true);
    const isRefused = found.faults.length > 0 && !check.isChecking;
    if (namespace && kind && mayCreate && !blocked.length && !isRefused) return create.send();
    lead();
  };
  return (
    <>
      <CreateHeader
        {...{ title, kind, namespace }}
        actions={<CopyMenu read={rendering.settle} namespace={namespace} />}
      />
      <PageSection isFilled>
        <Stack hasGutter>
          {store.isRestored && <Restored onStartOver={store.drop} />}
          {!mayCreate && <Forbidden user={user} kind={kind} namespace={namespace} />}
          <StackItem isFilled>
            <Panes {...page} />
          </StackItem>
          {asked && faults.length > 0 && <ToCorrect faults={faults} kind={kind} />}
          {refused !== undefined && !faults.length && (
            <StackItem>
              <ErrorAlert error={refused} title={create.error ? text.notCreated : undefined} />
            </StackItem>
          )}
          <StackItem>
            <div className="app-actions">
              <Button isAriaDisabled={create.isPending} isLoading={create.isPending} onClick={submit}>
                {text.create}
              </Button>
              <SaveTemplate namespace={namespace} read={rendering.settle} isDisabled={!namespace || !kind} />
              <Button variant="link" onClick={() => void navigate("/jobs")}>
                {text.cancel}
              </Button>
            </div>
          </StackItem>
        </Stack>
      </PageSection>
    </>
  );
}

/** The faults to show: those of the last refusal if the job is still the same, and of empty fields once the person asked. */
function shownFaults({ namespace, store, faults }: Page, asked: boolean, refusal: FieldFault[]): FieldFault[] {
  if (!asked) return faults.filter((fault) => !isUntouched(fault, store.model));
  if (!namespace) return [{ path: "namespace", ...text.namespaceFirst }, ...faults];
  return refusal.length ? refusal : faults;
}

/** The fields of the form that faults are about. */
function fieldsOf(faults: readonly FieldFault[], kind: Kind | undefined): string[] {
  const shown = kind ? pathsOf(kind) : [];
  const fields = faults.map(({ path = "" }) => fieldOf(path, {}, shown));
  return [...new Set(fields)].filter((field) => field !== undefined);
}

type PageState = { page: Page; user: string; mayCreate: boolean };

/** Everything that the panes show of what is being written. */
function usePage(store: Store): PageState {
  const { model } = store;
  const [typed, setTyped] = useState<string>();
  const written = useMemo(() => readText(model.text), [model.text]);
  const own = "fault" in written ? "" : written.namespace;
  const kind = model.edited ? kindWritten(written) : model.fields && kindOfFields(model.fields);
  const [likely, namespaces] = useNamespacesOfNew(kind);
  const namespace = typed ?? (own || likely);
  const rendering = useRendering(store, namespace, written);
  const identity = useIdentity(namespace, kind);
  const mayCreate = !namespace || allowed(identity.data, "create") !== false;
  const [blocked, block] = useBlocked();
  const left = unreadable(
    model,
    blocked.map(({ path = "" }) => path),
  );
  const { check, faults } = useChecked(model, left, rendering, mayCreate && kind !== undefined ? namespace : "");
  const onNamespace = (next: string) => {
    setTyped(next);
    if (own) store.type(withNamespace(model.text, next));
  };
  const offered = useOffers(namespace, mayCreate);
  const where = { namespace, onNamespace, namespaces };
  const page = { store, rendering, kind, blocked, block, check, faults, ...where, ...offered };
  return { page, user: identity.data?.user ?? "", mayCreate };
}

/**
 * What the service says about the job; where it cannot even render what was typed, why. Fields that it cannot read are left out, so
 * that it checks the others; what it would say about these, or about the job as a whole, is then not true of what was typed.
 */
function useChecked(model: Model, left: readonly string[], rendering: Rendering, namespace: string) {
  const { isCurrent, error } = rendering;
  const hasBegun = model.edited || !model.isUnread;
  // Fields are checked as they are; a manifest is, once it has them.
  const canCheck = Boolean(namespace) && hasBegun && (isCurrent || !model.edited);
  const check = useCheck(namespace, canCheck ? sourceOf(model, left) : undefined);
  const unrendered = left.length ? [] : faultsOf(error);
  const isUnknown = !namespace || left.length > 0 || (!canCheck && error !== undefined);
  const away = error !== undefined && !faultsOf(error).length ? error : undefined;
  const shown = pathsOf(kindOfFields(model.fields ?? {}));
  const found = check.faults.filter(({ path = "" }) => !left.includes(fieldOf(path, model.fields ?? {}, shown) ?? ""));
  return {
    check: { ...check, answer: isUnknown ? undefined : check.answer, error: check.error ?? away },
    faults: canCheck || !unrendered.length ? found : unrendered,
  };
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
      <Alert
        {...leadable}
        isInline
        component="h2"
        variant="warning"
        customIcon={<LockIcon />}
        title={text.forbidden.title}
      >
        <p>{text.forbidden.body(user, messages.common.kinds[kind], namespace)}</p>
        <p>{text.forbidden.hint}</p>
      </Alert>
    </StackItem>
  );
}

/** What has to be corrected before the job can be created. */
function ToCorrect({ faults, kind }: { faults: readonly FieldFault[]; kind: Kind | undefined }) {
  const show = (path: string, name: string) => {
    const fields = fieldsOf([{ path }], kind);
    if (!fields.length) return name;
    return (
      <Button variant="link" isInline onClick={() => leadTo(fields)}>
        {name}
      </Button>
    );
  };
  return (
    <StackItem>
      <Alert {...leadable} isInline isLiveRegion component="h2" variant="danger" title={text.check.blocked}>
        <FaultList faults={faults} nameOf={labelAt} show={show} />
      </Alert>
    </StackItem>
  );
}
