import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import { keys } from "../api/cache";
import { type Draft, draftOf } from "./rule-draft";
import { RuleFields } from "./rule-fields";

let last: Draft;

function Form() {
  const [draft, change] = useState(() => draftOf(undefined));
  last = draft;
  return <RuleFields draft={draft} onChange={change} isNew />;
}

function show(sendsEmail?: boolean) {
  const queries = new QueryClient({ defaultOptions: { queries: { staleTime: Number.POSITIVE_INFINITY } } });
  if (sendsEmail !== undefined) {
    queries.setQueryData(keys.identity("", "mpijob"), { user: "jane", groups: [], permissions: [], sendsEmail });
  } else {
    queries.setQueryDefaults(keys.identity("", "mpijob"), { enabled: false });
  }
  return render(
    <QueryClientProvider client={queries}>
      <Form />
    </QueryClientProvider>,
  );
}

test("e-mail is offered only if the service can send it", () => {
  const { unmount } = show(true);
  expect(screen.getByRole("radio", { name: "E-mail" })).toBeTruthy();
  unmount();
  const without = show(false);
  expect(screen.queryByRole("radio", { name: "E-mail" })).toBeNull();
  expect(screen.getByText(/no mail server/)).toBeTruthy();
  without.unmount();
  show();
  expect(screen.queryByRole("radio", { name: "E-mail" })).toBeNull();
  expect(screen.queryByText(/no mail server/)).toBeNull();
});

test("a rule is about changes or has one condition, with its own field", async () => {
  show(false);
  expect(screen.getByRole("checkbox", { name: "Failed" })).toBeTruthy();
  await userEvent.click(screen.getByRole("radio", { name: "When a quota is nearly used" }));
  expect(screen.queryByRole("checkbox")).toBeNull();
  expect(screen.queryByRole("textbox", { name: /Only this job/ })).toBeNull();
  const percent = screen.getByRole("spinbutton", { name: /Used to at least/ });
  expect(percent).toHaveValue(90);
  await userEvent.click(screen.getByRole("button", { name: "Lower percentage" }));
  expect(last).toMatchObject({ when: "quota", percent: "89" });
  await userEvent.click(screen.getByRole("radio", { name: "When a job runs for long" }));
  const time = screen.getByRole("textbox", { name: /Running for longer than/ });
  await userEvent.clear(time);
  await userEvent.type(time, "36h");
  expect(last).toMatchObject({ when: "runs", time: "36h" });
  await userEvent.click(screen.getByRole("radio", { name: "When a job stalls" }));
  expect(screen.queryByRole("textbox", { name: /Running for longer than/ })).toBeNull();
  expect(last.when).toBe("stalled");
});
