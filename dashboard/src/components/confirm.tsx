// Asks before something is deleted.

import { Button, Modal, ModalBody, ModalFooter, ModalHeader } from "@patternfly/react-core";
import type { ReactNode } from "react";
import { messages } from "../messages";

type Props = {
  title: string;
  action: string;
  isBusy: boolean;
  onConfirm: () => void;
  onCancel: () => void;
  children?: ReactNode;
};

export function Confirm({ title, action, isBusy, onConfirm, onCancel, children }: Props) {
  return (
    <Modal
      isOpen
      variant="small"
      onClose={onCancel}
      aria-labelledby="confirm-title"
      aria-describedby="confirm-body"
      // What does no harm.
      elementToFocus="#confirm-cancel"
    >
      <ModalHeader title={title} titleIconVariant="warning" labelId="confirm-title" />
      <ModalBody id="confirm-body">{children}</ModalBody>
      <ModalFooter>
        <Button variant="danger" onClick={onConfirm} isLoading={isBusy} isDisabled={isBusy}>
          {action}
        </Button>
        <Button id="confirm-cancel" variant="link" onClick={onCancel}>
          {messages.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
