// The job's configuration: as the cluster applied it, as what creates it again, and where it differs from the job that it was
// copied from.

import {
  Button,
  ClipboardCopyButton,
  CodeBlock,
  CodeBlockAction,
  ToggleGroup,
  ToggleGroupItem,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import DownloadIcon from "@patternfly/react-icons/dist/esm/icons/download-icon";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router-dom";
import { keys } from "../api/cache";
import { ask, client } from "../api/client";
import { hasCode } from "../api/problem";
import { ComparisonTable } from "../compare/table";
import { useComparison } from "../compare/use-comparison";
import { ScrollRegion } from "../components/scroll-region";
import { ErrorState, LoadingLines, NothingHere } from "../components/states";
import { messages } from "../messages";
import { save } from "./download";
import { readable } from "./logs/text";
import type { Manifest } from "./manifest";
import type { JobTab } from "./tab";
import type { Ref } from "./use-job";
import { highlightYaml } from "./yaml-highlight";

const text = messages.job.configuration;
const formats = ["yaml", "json", "cli", "python", "differences"] as const;
type Format = (typeof formats)[number];
const endings: Record<Exclude<Format, "differences">, string> = { yaml: "yaml", json: "json", cli: "sh", python: "py" };

export function Configuration({ job, jobRef, manifest }: JobTab) {
  const [address, setAddress] = useSearchParams();
  const format = formats.find((one) => one === address.get("format")) ?? "yaml";
  const choose = (to: Format) =>
    setAddress(
      (before) => {
        const after = new URLSearchParams(before);
        if (to === "yaml") after.delete("format");
        else after.set("format", to);
        return after;
      },
      { replace: true },
    );
  return (
    <>
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem>
            <ToggleGroup aria-label={text.format} className="job-formats">
              {formats.map((one) => (
                <ToggleGroupItem key={one} text={text[one]} isSelected={format === one} onChange={() => choose(one)} />
              ))}
            </ToggleGroup>
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      {format === "differences" ? (
        <Differences jobRef={jobRef} manifest={manifest} />
      ) : format === "yaml" ? (
        <Code jobRef={jobRef} format="yaml" code={job.manifest ?? ""} />
      ) : (
        <Exported jobRef={jobRef} format={format} />
      )}
    </>
  );
}

function Exported({ jobRef, format }: { jobRef: Ref; format: Exclude<Format, "differences"> }) {
  const { data, error, refetch } = useQuery({
    queryKey: [...keys.job(jobRef), "export", format],
    queryFn: ({ signal }) =>
      ask(
        client.GET("/api/v1/namespaces/{namespace}/jobs/{kind}/{name}/export", {
          params: { path: jobRef, query: { format } },
          signal,
        }),
      ),
  });
  if (error) return <ErrorState error={error} onRetry={() => void refetch()} />;
  if (!data) return <LoadingLines lines={12} />;
  return <Code jobRef={jobRef} format={format} code={data.text ?? ""} />;
}

type CodeProps = { jobRef: Ref; format: Exclude<Format, "differences">; code: string };

function Code({ jobRef, format, code }: CodeProps) {
  const [copied, setCopied] = useState(false);
  const label = text.text(text[format]);
  return (
    <CodeBlock
      className="job-code"
      actions={
        <>
          <CodeBlockAction>
            <ClipboardCopyButton
              id="copy-configuration"
              aria-label={messages.common.copy}
              onClick={() => void navigator.clipboard.writeText(code).then(() => setCopied(true))}
              onTooltipHidden={() => setCopied(false)}
              variant="plain"
            >
              {copied ? messages.common.copied : messages.common.copy}
            </ClipboardCopyButton>
          </CodeBlockAction>
          <CodeBlockAction>
            <Button
              variant="plain"
              icon={<DownloadIcon />}
              aria-label={text.download}
              onClick={() => save(`${jobRef.name}.${endings[format]}`, [code])}
            />
          </CodeBlockAction>
        </>
      }
    >
      <ScrollRegion label={label} className="job-code-text">
        {format === "yaml" ? <Yaml code={code} /> : <pre>{readableLines(code)}</pre>}
      </ScrollRegion>
    </CodeBlock>
  );
}

function readableLines(code: string): string {
  return code.split("\n").map(readable).join("\n");
}

function Yaml({ code }: { code: string }) {
  return (
    <pre>
      {highlightYaml(readableLines(code)).map((tokens, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a line has no other name than its number.
        <div key={line}>
          {tokens.map((token, place) =>
            token.look ? (
              // biome-ignore lint/suspicious/noArrayIndexKey: nor has a part of it.
              <span key={place} className={`job-yaml-${token.look}`}>
                {token.text}
              </span>
            ) : (
              token.text
            ),
          )}
          {"\n"}
        </div>
      ))}
    </pre>
  );
}

function Differences({ jobRef, manifest }: { jobRef: Ref; manifest: Manifest }) {
  const origin = manifest.origin?.name;
  const comparison = useComparison({ ...jobRef, names: origin ? [origin, jobRef.name] : [] });
  if (!origin) return <NothingHere title={text.noOrigin}>{text.noOriginBody}</NothingHere>;
  if (hasCode(comparison.error, "NotFound")) return <NothingHere title={text.originGone} />;
  if (comparison.error) return <ErrorState error={comparison.error} onRetry={() => void comparison.refetch()} />;
  if (!comparison.data) return <LoadingLines />;
  return (
    <>
      <h2 className="job-subtitle">{text.differsFrom(origin)}</h2>
      {comparison.data.differences.length ? (
        <ComparisonTable
          label={text.differsFrom(origin)}
          columns={comparison.data.columns}
          rows={comparison.data.differences}
        />
      ) : (
        <NothingHere title={messages.compare.noDifferences}>{messages.compare.noDifferencesBody}</NothingHere>
      )}
    </>
  );
}
