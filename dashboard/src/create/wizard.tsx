// Form and YAML on one manifest, checked by the service while it is written.

import {
  Alert,
  Button,
  Grid,
  GridItem,
  List,
  ListItem,
  PageSection,
  Stack,
  StackItem,
  ToggleGroup,
  ToggleGroupItem,
} from "@patternfly/react-core";
import LockIcon from "@patternfly/react-icons/dist/esm/icons/lock-icon";
import { useMutation, useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useMemo, useRef, useState } from "react";
import { useNavigate, useSearchParams } from "react-router-dom";
import { ask, client, kindOf } from "../api/client";
import { allowed, useIdentity } from "../api/identity";
import type { FieldFault } from "../api/problem";
import { recall, remember } from "../browser/storage";
import { PageHeader } from "../components/page-header";
import { ErrorAlert, ErrorState, LoadingLines } from "../components/states";
import { useToast } from "../components/toasts";
import { jobAddress } from "../jobs/actions";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";
import { AdviceCard } from "./advice";
import { type Check, useCheck } from "./check";
import { CopyMenu } from "./copy-menu";
import { originOf, useDraft } from "./draft";
import { fieldPaths, JobForm } from "./form";
import { isAbout, type Manifest, readManifest, readText, totals, write } from "./manifest";
import { SaveTemplate } from "./save-template";
import { QuotaCard, TotalsCard } from "./totals";

const YamlEditor = lazy(() => import("./yaml-editor"));
const text = messages.create;
const views = ["form", "both", "yaml"] as const;
type View = (typeof views)[number];
const viewKey = "training.create-view";

export function Wizard() {
  const [query] = useSearchParams();
  const from = query.get("from");
  const set = query.getAll("set");
  const file = query.get("file");
  const origin = file ?? (from ? `from:${from}:${set.join()}` : originOf(query.get("type")));
  const copy = useCopyOf(from, set);
  if (copy.error) return <Failed error={copy.error} onRetry={() => void copy.refetch()} />;
  if (from && !copy.data) {
    return (
      <>
        <PageHeader title={text.title} />
        <LoadingLines />
      </>
    );
  }
  return (
    <Editor
      key={origin}
      origin={origin}
      beginning={copy.data}
      title={from ? text.fromJob(from.split("/")[2] ?? "") : text.title}
    />
  );
}

function Failed({ error, onRetry }: { error: unknown; onRetry: () => void }) {
  return (
    <>
      <PageHeader title={text.title} />
      <ErrorState error={error} onRetry={onRetry} />
    </>
  );
}

/** The manifest of another job under a new name, with changes, as the service would create it. */
function useCopyOf(from: string | null, set: string[]) {
  const [namespace = "", kind = "", name = ""] = (from ?? "").split("/");
  return useQuery({
    queryKey: ["copy", from, set],
    enabled: Boolean(from),
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const path = { namespace, kind: kindOf(kind), name };
      const answer = await ask(
        client.POST("/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/clone", {
          params: { path },
          body: { set, dryRun: true },
          signal,
        }),
      );
      return answer.manifest ?? "";
    },
  });
}

function Editor({ origin, beginning, title }: { origin: string; beginning: string | undefined; title: string }) {
  const navigate = useNavigate();
  const { show } = useToast();
  const [chosen] = useNamespace();
  const draft = useDraft(origin);
  const manifestText = draft.text ?? beginning ?? "";
  const manifest = useMemo(() => readManifest(manifestText), [manifestText]);
  const own = "document" in manifest ? readText(manifest.document, ["metadata", "namespace"]) : "";
  const [typedNamespace, setNamespace] = useState<string>();
  const namespace = typedNamespace ?? (own || chosen);
  const [asked, setAsked] = useState(false);
  const change = (next: string) => draft.set(next);

  const kind = "shape" in manifest ? manifest.shape.kind : "mpijob";
  const identity = useIdentity(namespace, kind);
  const mayCreate = !namespace || allowed(identity.data, "create") !== false;
  const check = useCheck(namespace, manifestText, mayCreate && "shape" in manifest && manifestText !== "");
  const create = useCreate(namespace, manifestText, (job) => {
    draft.drop();
    show(text.created(job.name ?? ""));
    void navigate(jobAddress(job));
  });
  const setJobNamespace = (next: string) => {
    setNamespace(next);
    if (own) change(write(manifestText, [[["metadata", "namespace"], next || undefined]]));
  };
  const touched = useTouchedFaults(check.faults, asked, manifest);
  const refused = create.error ?? (asked ? check.error : undefined);

  return (
    <>
      <PageHeader title={title} actions={<CopyMenu manifest={manifestText} namespace={namespace} />} />
      <PageSection isFilled>
        <Stack hasGutter>
          {draft.restored && (
            <StackItem>
              <Alert
                isInline
                component="h2"
                variant="info"
                title={text.restored}
                actionLinks={
                  <Button variant="link" isInline onClick={draft.drop}>
                    {text.startOver}
                  </Button>
                }
              />
            </StackItem>
          )}
          {!mayCreate && (
            <StackItem>
              <Alert isInline component="h2" variant="warning" customIcon={<LockIcon />} title={text.forbidden.title}>
                <p>{text.forbidden.body(identity.data?.user ?? "", messages.common.kinds[kind], namespace)}</p>
                <p>{text.forbidden.hint}</p>
              </Alert>
            </StackItem>
          )}
          <StackItem isFilled>
            <Panes
              manifest={manifest}
              manifestText={manifestText}
              namespace={namespace}
              onNamespace={setJobNamespace}
              onText={change}
              faults={touched}
              check={check}
            />
          </StackItem>
          {refused !== undefined && (
            <StackItem>
              <ErrorAlert error={refused} title={create.error ? text.notCreated : undefined} />
            </StackItem>
          )}
          <StackItem>
            <div className="app-actions">
              <Button
                isDisabled={!mayCreate || create.isPending || "fault" in manifest || !namespace}
                isLoading={create.isPending}
                onClick={() => {
                  setAsked(true);
                  create.mutate();
                }}
              >
                {text.create}
              </Button>
              <SaveTemplate
                namespace={namespace}
                manifest={manifestText}
                isDisabled={!namespace || !("shape" in manifest)}
              />
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

/** One key for each manifest: a request that is repeated after a broken connection creates no second job. */
function useCreate(
  namespace: string,
  manifest: string,
  onCreated: (job: { namespace?: string; kind?: string; name?: string }) => void,
) {
  const key = useRef({ manifest: "", value: "" });
  return useMutation({
    mutationFn: async () => {
      if (key.current.manifest !== manifest) key.current = { manifest, value: crypto.randomUUID() };
      const { job } = await ask(
        client.POST("/api/v1/namespaces/{namespace}/jobs", {
          params: { path: { namespace } },
          body: { manifest, idempotencyKey: key.current.value },
        }),
      );
      return job ?? {};
    },
    onSuccess: onCreated,
  });
}

/** Faults to show. Those of fields that are still empty are shown once the person asks to create the job. */
function useTouchedFaults(faults: FieldFault[], asked: boolean, manifest: Manifest): FieldFault[] {
  if (asked || !("shape" in manifest)) return faults;
  const paths = Object.values(fieldPaths(manifest.shape)).flat();
  return faults.filter(({ path }) => {
    const field = paths.find((one) => isAbout(path, one));
    return (
      !field ||
      readText(manifest.document, field) !== "" ||
      !["name", "image", "command"].includes(String(field.at(-1)))
    );
  });
}

type PanesProps = {
  manifest: Manifest;
  manifestText: string;
  namespace: string;
  onNamespace: (namespace: string) => void;
  onText: (text: string) => void;
  faults: FieldFault[];
  check: Check;
};

function Panes(props: PanesProps) {
  const { manifest, manifestText, onText, faults, check } = props;
  const [view, setView] = useView(manifest);
  const sums = useMemo(() => ("shape" in manifest ? totals(manifest) : undefined), [manifest]);
  const marks = useMemo(() => ("fault" in manifest ? [manifest.fault] : []), [manifest]);
  const hasForm = view !== "yaml";
  const hasYaml = view !== "form";
  return (
    <>
      <ToggleGroup aria-label={text.views.label} className="app-views">
        {views.map((one) => (
          <ToggleGroupItem
            key={one}
            text={text.views[one]}
            buttonId={`view-${one}`}
            isSelected={view === one}
            onChange={() => setView(one)}
          />
        ))}
      </ToggleGroup>
      <Grid hasGutter>
        {hasForm && (
          <GridItem lg={hasYaml ? 6 : 8}>
            <FormPane {...props} />
          </GridItem>
        )}
        {hasYaml && (
          <GridItem lg={hasForm ? 6 : 8}>
            <Suspense fallback={<LoadingLines lines={12} />}>
              <YamlEditor text={manifestText} onChange={onText} faults={marks} />
            </Suspense>
            <p className="app-cause">{text.yaml.keys}</p>
            {!hasForm && <Faults manifest={manifest} faults={faults} />}
          </GridItem>
        )}
        <GridItem lg={view === "both" ? 12 : 4}>
          <Grid hasGutter md={view === "both" ? 6 : 12}>
            {sums && (
              <GridItem>
                <TotalsCard totals={sums} />
              </GridItem>
            )}
            <GridItem>
              <QuotaCard check={check} />
            </GridItem>
            {check.answer?.advice && (
              <GridItem>
                <AdviceCard program={check.answer.advice} />
              </GridItem>
            )}
            <GridItem md={12}>
              <Warnings warnings={check.answer?.warnings ?? []} />
            </GridItem>
          </Grid>
        </GridItem>
      </Grid>
    </>
  );
}

/** The view that the person chose; YAML where there is no form. */
function useView(manifest: Manifest): [View, (view: View) => void] {
  const saved = recall(viewKey);
  const [view, setView] = useState<View>(views.find((one) => one === saved) ?? "form");
  const began = useRef("unknown" in manifest);
  return [
    began.current && view === "form" ? "both" : view,
    (next) => {
      began.current = false;
      remember(viewKey, next);
      setView(next);
    },
  ];
}

function FormPane({ manifest, manifestText, namespace, onNamespace, onText, faults, check }: PanesProps) {
  if (!("shape" in manifest)) return <Faults manifest={manifest} faults={faults} />;
  const paths = Object.values(fieldPaths(manifest.shape)).flat();
  const elsewhere = faults.filter(({ path }) => !paths.some((field) => isAbout(path, field)));
  return (
    <>
      <Faults manifest={manifest} faults={elsewhere} />
      <JobForm
        document={manifest.document}
        shape={manifest.shape}
        namespace={namespace}
        onNamespace={onNamespace}
        faults={faults}
        advice={check.answer?.advice}
        onChange={(changes) => onText(write(manifestText, changes))}
      />
    </>
  );
}

/** Faults that no field shows. */
function Faults({ manifest, faults }: { manifest: Manifest; faults: FieldFault[] }) {
  if ("fault" in manifest) {
    const { line, message } = manifest.fault;
    return (
      <Alert isInline component="h2" variant="warning" title={<bdi>{text.yaml.fault(line, message)}</bdi>}>
        {text.yaml.faultHint}
      </Alert>
    );
  }
  if ("unknown" in manifest) {
    return (
      <Alert isInline component="h2" variant="info" title={<bdi>{text.yaml.unknownKind(manifest.unknown)}</bdi>}>
        {text.yaml.unknownHint}
      </Alert>
    );
  }
  if (!faults.length) return null;
  return (
    <Alert isInline component="h2" variant="danger" title={text.check.faults(faults.length)} className="app-faults">
      <List>
        {faults.map(({ path, fault, fix }) => (
          <ListItem key={`${path} ${fault}`}>
            <bdi>
              <strong>{path}</strong> {fault}
              {fix && `: ${fix}`}
            </bdi>
          </ListItem>
        ))}
      </List>
    </Alert>
  );
}

function Warnings({ warnings }: { warnings: string[] }) {
  if (!warnings.length) return null;
  return (
    <Alert isInline component="h2" variant="info" title={text.check.warnings}>
      <List>
        {warnings.map((warning) => (
          <ListItem key={warning}>
            <bdi className="app-break">{warning}</bdi>
          </ListItem>
        ))}
      </List>
    </Alert>
  );
}
