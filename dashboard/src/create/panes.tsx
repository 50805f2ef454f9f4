// Form and YAML side by side, and beside them what the service says about the job.

import { Alert, Grid, GridItem, ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { lazy, Suspense, useMemo, useRef, useState } from "react";
import type { Gpus, Read } from "../api/choices";
import type { Kind } from "../api/client";
import { type FieldFault, isTemporary } from "../api/problem";
import { recall, remember } from "../browser/storage";
import { freeGpus } from "../components/free-gpus";
import { LoadingLines } from "../components/states";
import { messages } from "../messages";
import type { NamespacesOfNew } from "../shell/namespace";
import { AdviceCard } from "./advice";
import type { Check } from "./check";
import { pathsOf } from "./controls";
import { placeFaults } from "./faults";
import { kindOfFields, textAt } from "./fields";
import { JobForm } from "./form";
import { FormProvider } from "./form-context";
import type { Hardware } from "./hardware";
import { isToBegin } from "./model";
import { Faults, FieldFaults, Warnings } from "./notices";
import type { Offers } from "./offers";
import { QuotaCard, TotalsCard } from "./totals";
import type { Rendering, Store } from "./use-model";

const YamlEditor = lazy(() => import("./yaml-editor"));
const text = messages.create;
const views = ["form", "both", "yaml"] as const;
type View = (typeof views)[number];
const viewKey = "training.create-view";

/** What the page holds while a job is written. */
export type Page = {
  store: Store;
  rendering: Rendering;
  namespace: string;
  onNamespace: (namespace: string) => void;
  namespaces: NamespacesOfNew;
  kind: Kind | undefined;
  check: Check;
  /** Faults that the service found. */
  faults: FieldFault[];
  /** Faults of what cannot be sent to it. */
  blocked: FieldFault[];
  block: (path: string, why: string | undefined) => void;
  offers: Offers;
  hardware: Hardware;
  gpus: Read<Gpus>;
};

export function Panes(page: Page) {
  const { kind, check, gpus } = page;
  const free = freeGpus(gpus, textAt(page.store.model.fields ?? {}, "queue"));
  const [view, setView] = useView(kind === undefined);
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
            <FormPane {...page} />
          </GridItem>
        )}
        {hasYaml && (
          <GridItem lg={hasForm ? 6 : 8}>
            <YamlPane {...page} hasForm={hasForm} />
          </GridItem>
        )}
        <GridItem lg={view === "both" ? 12 : 4}>
          <Cards check={check} free={free} isWide={view === "both"} isKnown={kind !== undefined} />
        </GridItem>
      </Grid>
    </>
  );
}

/** The view that the person chose; YAML where there is no form. */
function useView(hasNoForm: boolean): [View, (view: View) => void] {
  const saved = recall(viewKey);
  const [view, setView] = useState<View>(views.find((one) => one === saved) ?? "form");
  const began = useRef(hasNoForm);
  return [
    began.current && view === "form" ? "both" : view,
    (next) => {
      began.current = false;
      remember(viewKey, next);
      setView(next);
    },
  ];
}

type CardsProps = { check: Check; free: readonly string[]; isWide: boolean; isKnown: boolean };

function Cards({ check, free, isWide, isKnown }: CardsProps) {
  const { answer } = check;
  return (
    <Grid hasGutter md={isWide ? 6 : 12}>
      {isKnown && (
        <GridItem>
          <TotalsCard requested={answer?.availability?.requested} />
        </GridItem>
      )}
      <GridItem>
        <QuotaCard check={check} free={free} />
      </GridItem>
      {answer?.advice && (
        <GridItem>
          <AdviceCard program={answer.advice} />
        </GridItem>
      )}
      <GridItem md={12}>
        <Warnings warnings={answer?.warnings ?? []} />
      </GridItem>
    </Grid>
  );
}

function FormPane({ store, rendering, kind, faults, blocked, check, block, ...page }: Page) {
  const { namespace, onNamespace, namespaces, offers, hardware, gpus } = page;
  const { fields, hasFields } = store.model;
  // A default that appears in a field while somebody types there would be taken for their own.
  const isBeginning = isToBegin(store.model) && rendering.error === undefined;
  const shownKind = fields && kindOfFields(fields);
  const placed = useMemo(
    () => placeFaults(faults, fields ?? {}, shownKind ? pathsOf(shownKind) : []),
    [faults, fields, shownKind],
  );
  if (!kind || !hasFields) return <Faults {...{ rendering, kind, hasFields, faults }} />;
  if (!fields || isBeginning) return <LoadingLines lines={12} />;
  const form = {
    fields,
    change: store.change,
    typed: store.model.typed,
    typeCommand: store.typeCommand,
    faults: placed,
    blocked: blocked.map(({ path = "" }) => path),
    block,
    namespace,
    onNamespace,
    namespaces,
    advice: check.answer?.advice,
    offers,
    hardware,
    gpus,
  };
  return (
    <>
      <FieldFaults faults={placed.get("") ?? []} />
      <FormProvider value={form}>
        <JobForm />
      </FormProvider>
    </>
  );
}

function YamlPane({ store, rendering, kind, faults, hasForm }: Page & { hasForm: boolean }) {
  const { written, error } = rendering;
  const marks = useMemo(() => ("fault" in written ? [written.fault] : []), [written]);
  return (
    <>
      {Boolean(error) && <Behind error={error} />}
      <Suspense fallback={<LoadingLines lines={12} />}>
        <YamlEditor text={store.model.text} onChange={store.type} faults={marks} />
      </Suspense>
      <p className="app-cause">{text.yaml.keys}</p>
      {!hasForm && <Faults {...{ rendering, kind, faults }} hasFields />}
    </>
  );
}

/** Why the manifest lacks what was typed in the form. */
function Behind({ error }: { error: unknown }) {
  return (
    <Alert isInline component="h2" variant="warning" title={text.yaml.behind} className="app-faults">
      {isTemporary(error) ? text.yaml.behindHint : text.yaml.refusedHint}
    </Alert>
  );
}
