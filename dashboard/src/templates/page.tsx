// The templates of a namespace, and those that the organisation shares.

import { Button, PageSection } from "@patternfly/react-core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ask, client, type Schemas } from "../api/client";
import { Confirm } from "../components/confirm";
import { type DataColumn, DataTable } from "../components/data-table";
import { useKeptFocus } from "../components/kept-focus";
import { PageHeader } from "../components/page-header";
import { ErrorState, LoadingLines, NothingHere } from "../components/states";
import { useToast } from "../components/toasts";
import { messages } from "../messages";
import { useNamespace } from "../shell/namespace";
import { UseTemplate } from "./use-template";

const text = messages.templates;
type Template = Schemas["Template"];

export function TemplatesPage() {
  const [namespace] = useNamespace();
  return (
    <>
      <PageHeader title={text.title} description={text.description} />
      <PageSection isFilled>
        {namespace ? (
          <Templates namespace={namespace} />
        ) : (
          <NothingHere title={text.chooseNamespace}>{text.chooseNamespaceBody}</NothingHere>
        )}
      </PageSection>
    </>
  );
}

function Templates({ namespace }: { namespace: string }) {
  const [used, use] = useState<Template>();
  const [asked, askFor] = useState<Template>();
  const list = useQuery({
    queryKey: ["templates", namespace],
    queryFn: ({ signal }) => listTemplates(namespace, signal),
  });
  const keys = useMemo(() => (asked ? undefined : list.data?.map(keyOf)), [asked, list.data]);
  const keepFocus = useKeptFocus(keys);
  if (list.error) return <ErrorState error={list.error} onRetry={() => void list.refetch()} />;
  if (!list.data) return <LoadingLines />;
  if (!list.data.length) return <NothingHere title={text.empty}>{text.emptyBody}</NothingHere>;
  return (
    <>
      <DataTable
        label={text.table}
        columns={columns(use, askFor)}
        rows={list.data}
        rowKey={keyOf}
        onFocus={keepFocus}
      />
      {used && <UseTemplate template={used} namespace={namespace} onCancel={() => use(undefined)} />}
      {asked && <DeleteTemplate template={asked} onClose={() => askFor(undefined)} />}
    </>
  );
}

/** Reads all pages. */
async function listTemplates(namespace: string, signal: AbortSignal): Promise<Template[]> {
  const templates: Template[] = [];
  let following: string | undefined;
  do {
    const params = { path: { namespace }, query: following ? { continue: following } : {} };
    const page = await ask(client.GET("/api/v1/namespaces/{namespace}/templates", { params, signal }));
    templates.push(...page.templates);
    following = page.continue;
  } while (following);
  return templates;
}

function keyOf({ namespace, name }: Template): string {
  return `${namespace}/${name}`;
}

function columns(use: (template: Template) => void, askFor: (template: Template) => void): DataColumn<Template>[] {
  const { columns: labels } = text;
  return [
    { label: labels.name, cell: ({ name }) => <bdi>{name}</bdi> },
    { label: labels.kind, cell: ({ kind }) => kind },
    { label: labels.version, cell: ({ version }) => version },
    { label: labels.description, cell: ({ description }) => description && <bdi>{description}</bdi> },
    { label: labels.parameters, cell: ({ parameters }) => parameters.map(({ name }) => name).join(", ") },
    { label: labels.from, cell: ({ shared, namespace }) => (shared ? text.shared : namespace) },
    {
      label: labels.actions,
      isAction: true,
      cell: (template) => (
        <div className="app-row-actions">
          <Button
            variant="secondary"
            size="sm"
            aria-label={text.useName(template.name ?? "")}
            onClick={() => use(template)}
          >
            {text.use}
          </Button>
          {!template.shared && (
            <Button
              variant="link"
              isDanger
              size="sm"
              aria-label={text.deleteName(template.name ?? "")}
              onClick={() => askFor(template)}
            >
              {text.delete}
            </Button>
          )}
        </div>
      ),
    },
  ];
}

function DeleteTemplate({
  template: { namespace = "", name = "" },
  onClose,
}: {
  template: Template;
  onClose: () => void;
}) {
  const queries = useQueryClient();
  const { show, fail } = useToast();
  const remove = useMutation({
    mutationFn: () =>
      ask(client.DELETE("/api/v1/namespaces/{namespace}/templates/{name}", { params: { path: { namespace, name } } })),
    onSuccess: () => show(text.deleted(name)),
    onError: (error) => fail(text.notDeleted(name), error),
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["templates"] });
    },
  });
  return (
    <Confirm
      title={text.deleteTitle(name)}
      action={text.delete}
      isBusy={remove.isPending}
      onConfirm={() => remove.mutate()}
      onCancel={onClose}
    >
      {text.deleteBody}
    </Confirm>
  );
}
