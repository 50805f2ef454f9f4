// Messages about what has happened; announced, dismissible, and gone after a while unless they report an error.

import { Alert, AlertActionCloseButton, AlertGroup, type AlertProps } from "@patternfly/react-core";
import { createContext, type ReactNode, useCallback, useContext, useState } from "react";
import { messages } from "../messages";
import { describeError } from "./states";

type Toast = { id: number; title: string; variant: AlertProps["variant"]; body?: ReactNode };
type Show = (title: string, variant?: AlertProps["variant"], body?: ReactNode) => void;

const mostShown = 5;
const ToastContext = createContext<Show>(() => {});
let lastId = 0;

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<Toast[]>([]);
  const show = useCallback<Show>((title, variant = "success", body) => {
    lastId += 1;
    const toast = { id: lastId, title, variant, body };
    setToasts((before) => [toast, ...before].slice(0, mostShown));
  }, []);
  const close = (id: number) => setToasts((before) => before.filter((toast) => toast.id !== id));
  return (
    <ToastContext.Provider value={show}>
      {children}
      <AlertGroup isToast isLiveRegion aria-label={messages.common.notices}>
        {toasts.map(({ id, title, variant, body }) => (
          <Alert
            key={id}
            component="h2"
            variant={variant}
            title={<bdi>{title}</bdi>}
            timeout={variant === "danger" || variant === "warning" ? false : 8000}
            onTimeout={() => close(id)}
            actionClose={
              <AlertActionCloseButton aria-label={messages.common.closeNotice(title)} onClose={() => close(id)} />
            }
          >
            {body}
          </Alert>
        ))}
      </AlertGroup>
    </ToastContext.Provider>
  );
}

export function useToast(): { show: Show; fail: (title: string, error: unknown) => void } {
  const show = useContext(ToastContext);
  const fail = useCallback((title: string, error: unknown) => show(title, "danger", describeError(error).body), [show]);
  return { show, fail };
}
