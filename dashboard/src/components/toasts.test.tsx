import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { ToastProvider, useToast } from "./toasts";

function Page() {
  const { show } = useToast();
  return (
    <button type="button" onClick={() => show("Deleted hello")}>
      delete
    </button>
  );
}

test("the button that closes a notice is named by its title", async () => {
  render(
    <ToastProvider>
      <Page />
    </ToastProvider>,
  );
  await userEvent.click(screen.getByRole("button", { name: "delete" }));
  expect(screen.getByRole("button", { name: "Close the notice: Deleted hello" })).toBeTruthy();
});
