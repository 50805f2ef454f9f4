// The rules of a namespace, with what can be done with each.

import { Label, MenuToggle } from "@patternfly/react-core";
import EllipsisVIcon from "@patternfly/react-icons/dist/esm/icons/ellipsis-v-icon";
import { ActionsColumn, type IAction } from "@patternfly/react-table";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ask, client } from "../api/client";
import { Confirm } from "../components/confirm";
import { DataTable } from "../components/data-table";
import { useToast } from "../components/toasts";
import { messages } from "../messages";
import { mainElement } from "../shell/main-element";
import { bodyOf, type Rule, whenOf } from "./rule-draft";
import { RuleForm } from "./rule-form";

const text = messages.notifications;

export function Rules({ namespace, rules }: { namespace: string; rules: Rule[] }) {
  const [asked, askFor] = useState<Rule>();
  const [edited, edit] = useState<Rule>();
  const { columns: labels } = text;
  return (
    <>
      <DataTable
        label={text.rules}
        rows={rules}
        rowKey={({ name = "" }) => name}
        columns={[
          { label: labels.name, cell: ({ name }) => <bdi>{name}</bdi> },
          { label: labels.about, cell: about },
          { label: labels.to, cell: ({ url, email }) => <bdi>{url || email}</bdi> },
          {
            label: labels.state,
            cell: ({ enabled }) => (
              <Label className="app-label" isCompact status={enabled ? "success" : "warning"}>
                {enabled ? text.on : text.silent}
              </Label>
            ),
          },
          {
            label: labels.actions,
            isAction: true,
            cell: (rule) => <RuleActions namespace={namespace} rule={rule} onEdit={edit} onDelete={askFor} />,
          },
        ]}
      />
      {edited && <RuleForm namespace={namespace} rule={edited} onClose={() => edit(undefined)} />}
      {asked && <DeleteRule namespace={namespace} name={asked.name ?? ""} onClose={() => askFor(undefined)} />}
    </>
  );
}

function about(rule: Rule): string {
  const { jobUid, job, phases, reasons, causes, quotaPercent = 0, runsLongerThan = "" } = rule;
  const when = whenOf(rule);
  if (when === "quota") return text.aboutQuota(quotaPercent);
  const changes = [...phases, ...reasons, ...causes].join(", ") || text.allPhases;
  const what = { change: changes, runs: text.aboutTime(runsLongerThan), stalled: text.aboutStalled }[when];
  return `${job ? text.jobNamed(job) : jobUid ? text.oneJob : text.allJobs}: ${what}`;
}

type ActionsProps = { namespace: string; rule: Rule; onEdit: (rule: Rule) => void; onDelete: (rule: Rule) => void };

function RuleActions({ namespace, rule, onEdit, onDelete }: ActionsProps) {
  const queries = useQueryClient();
  const { show, fail } = useToast();
  const { name = "", enabled, jobUid, job } = rule;
  const path = { namespace, name };
  const isForgotten = Boolean(jobUid) && !job;
  const put = useMutation({
    mutationFn: () =>
      ask(
        client.PUT("/api/v1/namespaces/{namespace}/notifications/{name}", {
          params: { path },
          body: { ...bodyOf(rule), disabled: enabled },
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["rules"] }),
    onError: (error) => fail(text.notSaved(name), error),
  });
  const test = useMutation({
    mutationFn: () =>
      ask(client.POST("/api/v1/namespaces/{namespace}/notifications/{name}/test", { params: { path }, body: {} })),
    onSuccess: () => {
      show(text.tested);
      return queries.invalidateQueries({ queryKey: ["deliveries"] });
    },
    onError: (error) => fail(text.notTested, error),
  });
  const items: IAction[] = [
    { title: text.test, onClick: () => test.mutate() },
    // A rule about one job is written again by the job's name, which the service may have forgotten.
    { title: text.change, isDisabled: isForgotten, onClick: () => onEdit(rule) },
    { title: enabled ? text.silence : text.resume, isDisabled: isForgotten, onClick: () => put.mutate() },
    { isSeparator: true },
    { title: text.delete, isDanger: true, onClick: () => onDelete(rule) },
  ];
  return (
    <ActionsColumn
      items={items}
      actionsToggle={({ onToggle, isOpen, isDisabled, toggleRef }) => (
        <MenuToggle
          ref={toggleRef}
          variant="plain"
          aria-label={text.menu(name)}
          onClick={onToggle}
          isExpanded={isOpen}
          isDisabled={isDisabled}
          icon={<EllipsisVIcon />}
        />
      )}
      popperProps={{ position: "right", appendTo: mainElement }}
    />
  );
}

function DeleteRule({ namespace, name, onClose }: { namespace: string; name: string; onClose: () => void }) {
  const queries = useQueryClient();
  const { show, fail } = useToast();
  const remove = useMutation({
    mutationFn: () =>
      ask(
        client.DELETE("/api/v1/namespaces/{namespace}/notifications/{name}", { params: { path: { namespace, name } } }),
      ),
    onSuccess: () => show(text.deleted(name)),
    onError: (error) => fail(text.notDeleted(name), error),
    onSettled: () => {
      onClose();
      return queries.invalidateQueries({ queryKey: ["rules"] });
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
