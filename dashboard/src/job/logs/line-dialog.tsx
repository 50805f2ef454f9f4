// A whole line that is too long for its row, and everyone who wrote it.

import { Button, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import { ScrollRegion } from "../../components/scroll-region";
import { exact } from "../../format/time";
import { messages } from "../../messages";
import type { Line } from "./buffer";
import { sourceOf } from "./line-row";
import { readable } from "./text";

const text = messages.job.logs;
// A browser lays out so much text at once without a pause that a person notices.
const longestWhole = 100_000;

export function LineDialog({ line, onClose }: { line: Line; onClose: () => void }) {
  const origins = line.also.map(sourceOf);
  return (
    <Modal isOpen variant="large" onClose={onClose} aria-labelledby="line-title">
      <ModalHeader
        title={text.wholeLine}
        labelId="line-title"
        description={`${sourceOf(line)} ${Number.isNaN(line.at) ? "" : exact(line.at)}`}
      />
      <ModalBody>
        {line.text.length > longestWhole && (
          <p className="job-note">{text.wholeLineCut(longestWhole, line.text.length)}</p>
        )}
        <ScrollRegion label={text.wholeLine} className="log-whole" dir="ltr">
          {readable(line.text.slice(0, longestWhole))}
        </ScrollRegion>
        {origins.length > 0 && <p>{text.alsoFrom(origins.join(", "))}</p>}
      </ModalBody>
      <ModalFooter>
        <Button variant="secondary" onClick={() => void navigator.clipboard.writeText(line.text)}>
          {text.copyLine}
        </Button>
        <Button variant="link" onClick={onClose}>
          {messages.common.close}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
