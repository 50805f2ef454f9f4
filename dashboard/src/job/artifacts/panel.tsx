// The files of the job's volumes: folders, which the address names, with a preview and a download of each file.

import { Breadcrumb, BreadcrumbItem, Button, Icon, Toolbar, ToolbarContent, ToolbarItem } from "@patternfly/react-core";
import DownloadIcon from "@patternfly/react-icons/dist/esm/icons/download-icon";
import FileIcon from "@patternfly/react-icons/dist/esm/icons/file-icon";
import FolderIcon from "@patternfly/react-icons/dist/esm/icons/folder-icon";
import HddIcon from "@patternfly/react-icons/dist/esm/icons/hdd-icon";
import LockIcon from "@patternfly/react-icons/dist/esm/icons/lock-icon";
import SyncAltIcon from "@patternfly/react-icons/dist/esm/icons/sync-alt-icon";
import type { ComponentType } from "react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router-dom";
import { type DataColumn, DataTable } from "../../components/data-table";
import { ErrorAlert, ErrorState, LoadingLines, NothingHere } from "../../components/states";
import { Ago } from "../../components/time";
import { bytes } from "../../format/quantity";
import { messages } from "../../messages";
import { readable } from "../logs/text";
import type { JobTab } from "../tab";
import { PreviewDialog } from "./preview";
import { StartReader } from "./reader";
import { type Artifact, isOutside, needsReader, noPodRuns, type Place, saveFile, useFolder } from "./use-artifacts";

const text = messages.job.artifacts;
const icons: Record<string, ComponentType> = { volume: HddIcon, folder: FolderIcon };

export function Artifacts({ jobRef, may, live }: JobTab) {
  const [address, setAddress] = useSearchParams();
  const place: Place = { path: address.get("path") ?? "", worker: address.get("worker") ?? "" };
  const file = address.get("file");
  const isForbidden = may("create", "pods/exec") === false;
  const volumes = useFolder(jobRef, { path: "", worker: place.worker }, live, !isForbidden);
  const folder = useFolder(jobRef, place, live, !isForbidden);
  const [refused, setRefused] = useState<unknown>();
  const save = (path: string) => {
    setRefused(undefined);
    saveFile(jobRef, { ...place, path }).catch(setRefused);
  };
  if (isForbidden)
    return (
      <NothingHere title={text.forbidden} icon={LockIcon}>
        {text.forbiddenBody(jobRef.namespace)}
      </NothingHere>
    );
  const close = () =>
    setAddress((before) => {
      const after = new URLSearchParams(before);
      after.delete("file");
      return after;
    });
  const isMount = (path: string) => volumes.data?.artifacts.some((volume) => volume.path === path) ?? false;
  return (
    <>
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem alignSelf="center">
            <Path place={place} isMount={isMount} />
          </ToolbarItem>
          <ToolbarItem align={{ default: "alignEnd" }}>
            <Button
              variant="secondary"
              icon={<SyncAltIcon />}
              isLoading={folder.isFetching}
              onClick={() => void folder.refetch()}
            >
              {text.refresh}
            </Button>
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {Boolean(refused) && <ErrorAlert error={refused} title={text.notSaved} />}
      {needsReader(folder.error) ? (
        <StartReader jobRef={jobRef} problem={folder.error} mayStart={may("create", "pods")} />
      ) : (
        <Folder query={folder} place={place} onSave={save} />
      )}
      {file && (
        <PreviewDialog
          jobRef={jobRef}
          place={{ ...place, path: file }}
          name={nameOf(file)}
          onClose={close}
          onSave={() => save(file)}
        />
      )}
    </>
  );
}

/** The name of a file by its path, in which special characters are percent-encoded. */
function nameOf(path: string): string {
  const name = path.slice(path.lastIndexOf("/") + 1);
  try {
    return readable(decodeURIComponent(name));
  } catch {
    return readable(name);
  }
}

/** The way from the volume to the folder. What is above the volume cannot be listed. */
function Path({ place, isMount }: { place: Place; isMount: (path: string) => boolean }) {
  const parts = place.path.split("/").filter(Boolean);
  const paths = parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`);
  const mount = paths.findIndex(isMount);
  const shown = paths.slice(Math.max(mount, 0));
  return (
    <Breadcrumb aria-label={text.folder}>
      <BreadcrumbItem isActive={!place.path}>
        {place.path ? <Link to="?">{text.volumes}</Link> : text.volumes}
      </BreadcrumbItem>
      {shown.map((path, at) => {
        const name = at === 0 && mount >= 0 ? readable(path) : nameOf(path);
        const isLast = at === shown.length - 1;
        return (
          <BreadcrumbItem key={path} isActive={isLast}>
            {isLast ? <bdi>{name}</bdi> : <Link to={linkTo({ ...place, path })}>{<bdi>{name}</bdi>}</Link>}
          </BreadcrumbItem>
        );
      })}
    </Breadcrumb>
  );
}

function linkTo({ path, worker }: Place, file = ""): string {
  const query = new URLSearchParams({ path });
  if (worker) query.set("worker", worker);
  if (file) query.set("file", file);
  return `?${query}`;
}

type FolderProps = { query: ReturnType<typeof useFolder>; place: Place; onSave: (path: string) => void };

function Folder({ query, place, onSave }: FolderProps) {
  const { data, error } = query;
  if (noPodRuns(error))
    return (
      <NothingHere title={text.noPod} icon={HddIcon}>
        <bdi>{error.message}.</bdi> <bdi>{error.problem.hint && text.hint(error.problem.hint)}</bdi>
      </NothingHere>
    );
  if (isOutside(error))
    return (
      <NothingHere title={text.outside} icon={LockIcon}>
        <bdi>{error.message}.</bdi>
      </NothingHere>
    );
  if (error && !data) return <ErrorState error={error} onRetry={() => void query.refetch()} />;
  if (!data) return <LoadingLines lines={6} />;
  if (!data.artifacts.length)
    return place.path ? (
      <NothingHere title={text.empty} icon={FolderIcon} />
    ) : (
      <NothingHere title={text.noVolumes} icon={HddIcon}>
        {text.noVolumesBody}
      </NothingHere>
    );
  return (
    <>
      {error && <ErrorAlert error={error} title={messages.job.stale} onRetry={() => void query.refetch()} />}
      {data.truncated && <p className="job-note">{text.truncated(data.artifacts.length)}</p>}
      <DataTable
        label={place.path ? text.table : text.volumes}
        columns={place.path ? filesOf(place, onSave) : volumeColumns}
        rows={data.artifacts}
        rowKey={(row) => `${row.path} ${row.worker ?? ""}`}
      />
    </>
  );
}

function Name({ row, to }: { row: Artifact; to?: string }) {
  const Shape = icons[row.type ?? ""] ?? FileIcon;
  const name = <bdi>{readable(row.name ?? "")}</bdi>;
  return (
    <span className="artifact-name">
      <Icon isInline>
        <Shape />
      </Icon>
      {to ? <Link to={to}>{name}</Link> : name}
      {row.link && <span className="app-cause">{text.link}</span>}
    </span>
  );
}

const volumeColumns: DataColumn<Artifact>[] = [
  {
    label: text.columns.volume,
    cell: (row) => (
      <Name row={row} to={linkTo({ path: row.path ?? "", worker: isOfPod(row) ? String(row.worker ?? "") : "" })} />
    ),
  },
  { label: text.columns.source, cell: (row) => text.sources[row.source ?? "EmptyDir"] },
  { label: text.columns.claim, cell: (row) => <bdi>{row.claim || row.volume}</bdi> },
  {
    label: text.columns.of,
    cell: (row) => {
      if (!isOfPod(row)) return text.allPods;
      return row.worker === undefined ? messages.job.workers.launcher : messages.job.workers.name(row.worker);
    },
  },
];

/** Whether the volume goes with its pod. */
function isOfPod({ source }: Artifact): boolean {
  return source === "EmptyDir" || source === "Ephemeral";
}

function filesOf(place: Place, onSave: (path: string) => void): DataColumn<Artifact>[] {
  return [
    {
      label: text.columns.name,
      cell: (row) => {
        const path = row.path ?? "";
        if (row.type === "other") return <Name row={row} />;
        return <Name row={row} to={row.type === "folder" ? linkTo({ ...place, path }) : linkTo(place, path)} />;
      },
    },
    { label: text.columns.size, cell: (row) => (row.size ? bytes(Number(row.size)) : "") },
    { label: text.columns.modified, cell: (row) => <Ago time={row.modified} /> },
    {
      label: text.download,
      isAction: true,
      cell: (row) =>
        row.type === "file" && (
          <Button
            variant="plain"
            size="sm"
            icon={<DownloadIcon />}
            aria-label={text.downloadOf(readable(row.name ?? ""))}
            onClick={() => onSave(row.path ?? "")}
          />
        ),
    },
  ];
}
