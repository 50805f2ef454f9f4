// A file of the job, as far as it can be shown: as text, or as the pixels of an image.

import { Button, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import DownloadIcon from "@patternfly/react-icons/dist/esm/icons/download-icon";
import LockIcon from "@patternfly/react-icons/dist/esm/icons/lock-icon";
import { useEffect, useRef } from "react";
import { ScrollRegion } from "../../components/scroll-region";
import { ErrorState, LoadingLines, NothingHere } from "../../components/states";
import { bytes } from "../../format/quantity";
import { messages } from "../../messages";
import { shorten } from "../logs/text";
import type { Ref } from "../use-job";
import { mostImage, mostText } from "./content";
import { isOutside, type Place, type Preview, usePreview } from "./use-artifacts";

const text = messages.job.artifacts;

type Props = { jobRef: Ref; place: Place; name: string; onClose: () => void; onSave: () => void };

export function PreviewDialog({ jobRef, place, name, onClose, onSave }: Props) {
  const preview = usePreview(jobRef, place);
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-labelledby="artifact-title">
      <ModalHeader title={<bdi>{name}</bdi>} labelId="artifact-title" />
      <ModalBody>
        {isOutside(preview.error) ? (
          <NothingHere title={text.outside} icon={LockIcon}>
            <bdi>{preview.error.message}.</bdi>
          </NothingHere>
        ) : preview.error ? (
          <ErrorState error={preview.error} onRetry={() => void preview.refetch()} />
        ) : preview.data ? (
          <Shown preview={preview.data} name={name} />
        ) : (
          <LoadingLines lines={8} />
        )}
      </ModalBody>
      <ModalFooter>
        {!preview.error && (
          <Button icon={<DownloadIcon />} onClick={onSave}>
            {text.download}
          </Button>
        )}
        <Button variant="link" onClick={onClose}>
          {messages.common.close}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

function Shown({ preview, name }: { preview: Preview; name: string }) {
  if (preview.kind === "image") return <Picture bitmap={preview.bitmap} name={name} />;
  if (preview.kind === "large") return <p>{text.large(bytes(mostImage))}</p>;
  if (preview.kind === "binary") return <p>{text.binary}</p>;
  if (!preview.text) return <p>{text.emptyFile}</p>;
  const isCut = new TextEncoder().encode(preview.text).length >= mostText - 4;
  return (
    <>
      {isCut && <p className="job-note">{text.cut(bytes(mostText))}</p>}
      <ScrollRegion label={text.content} className="log-whole" dir="ltr">
        {preview.text
          .split("\n")
          .map((line) => shorten(line).text)
          .join("\n")}
      </ScrollRegion>
    </>
  );
}

function Picture({ bitmap, name }: { bitmap: ImageBitmap; name: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    canvas.current?.getContext("2d")?.drawImage(bitmap, 0, 0);
  }, [bitmap]);
  return (
    <canvas
      ref={canvas}
      width={bitmap.width}
      height={bitmap.height}
      role="img"
      aria-label={name}
      className="artifact-image"
    />
  );
}
