import { Tab, Tabs, TabTitleText } from "@patternfly/react-core";
import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { expect, test } from "vitest";
import { TabKeys } from "./tab-keys";

const names = ["one", "two", "three"];

function Example() {
  const [active, show] = useState("one");
  return (
    <TabKeys active={active}>
      <Tabs activeKey={active} onSelect={(_event, key) => show(String(key))}>
        {names.map((name) => (
          <Tab key={name} eventKey={name} title={<TabTitleText>{name}</TabTitleText>} />
        ))}
      </Tabs>
    </TabKeys>
  );
}

const tab = (name: string) => screen.getByRole("tab", { name });

test("tabs are one stop of the keyboard, and arrows, Home and End lead to the others", async () => {
  const user = userEvent.setup();
  render(
    <>
      <Example />
      <button type="button">after</button>
    </>,
  );
  await user.tab();
  expect(tab("one")).toHaveFocus();
  await user.keyboard("{ArrowRight}");
  expect(tab("two")).toHaveFocus();
  await user.keyboard("{End}{ArrowRight}");
  expect(tab("one")).toHaveFocus();
  await user.keyboard("{ArrowLeft}");
  expect(tab("three")).toHaveFocus();
  expect(tab("one")).toHaveAttribute("aria-selected", "true");
  await user.keyboard("{Enter}");
  expect(tab("three")).toHaveAttribute("aria-selected", "true");
  await user.tab();
  expect(screen.getByRole("button", { name: "after" })).toHaveFocus();
  await user.tab({ shift: true });
  expect(tab("three")).toHaveFocus();
});
