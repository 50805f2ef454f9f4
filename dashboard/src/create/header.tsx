// The head of the pages on which a job is created: where they belong, and the way to another kind of job.

import { Breadcrumb, BreadcrumbItem } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { Link } from "react-router-dom";
import type { Kind } from "../api/client";
import { PageHeader } from "../components/page-header";
import { messages } from "../messages";

const text = messages.create;

type Props = {
  /** Of a job that begins with another one or with a file; else the kind is the title. */
  title?: string;
  kind?: Kind;
  namespace?: string;
  actions?: ReactNode;
};

export function CreateHeader({ title, kind, namespace, actions }: Props) {
  const guide = `/create${namespace ? `?namespace=${encodeURIComponent(namespace)}` : ""}`;
  const own = kind && text.titleOf(messages.common.kinds[kind]);
  return (
    <PageHeader
      title={title ?? own ?? text.title}
      breadcrumb={
        <Place>
          <BreadcrumbItem>
            <Link to={guide}>{text.title}</Link>
          </BreadcrumbItem>
          <BreadcrumbItem isActive>
            <bdi>{title ?? (kind ? messages.common.kinds[kind] : text.guide.kinds.custom.title)}</bdi>
          </BreadcrumbItem>
        </Place>
      }
      description={
        !title && (
          <>
            {kind && text.guide.kinds[kind].how} <Link to={guide}>{text.otherKind}</Link>
          </>
        )
      }
      actions={actions}
    />
  );
}

export function GuideHeader() {
  return (
    <PageHeader
      title={text.guide.title}
      description={text.guide.description}
      breadcrumb={
        <Place>
          <BreadcrumbItem isActive>{text.title}</BreadcrumbItem>
        </Place>
      }
    />
  );
}

function Place({ children }: { children: ReactNode }) {
  return (
    <Breadcrumb aria-label={text.breadcrumb} className="app-breadcrumb">
      <BreadcrumbItem>
        <Link to="/jobs">{messages.jobs.title}</Link>
      </BreadcrumbItem>
      {children}
    </Breadcrumb>
  );
}
