import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { useKeptFocus } from "./kept-focus";

function List({ rows }: { rows: string[] }) {
  const keep = useKeptFocus(rows);
  return (
    <>
      <h1 tabIndex={-1}>Jobs</h1>
      <ul onFocus={keep}>
        {rows.map((row) => (
          <li key={row} data-row={row}>
            <button type="button">{row}</button>
          </li>
        ))}
      </ul>
    </>
  );
}

const title = () => screen.getByRole("heading", { name: "Jobs" });

test("when the row with the focus goes away, the title has it", () => {
  const { rerender } = render(<List rows={["a", "b"]} />);
  screen.getByRole("button", { name: "a" }).focus();
  rerender(<List rows={["b"]} />);
  expect(title()).toHaveFocus();
});

test("when another row goes away, or nothing had the focus, it stays where it is", () => {
  const { rerender } = render(<List rows={["a", "b", "c"]} />);
  rerender(<List rows={["a", "b"]} />);
  expect(document.body).toHaveFocus();
  screen.getByRole("button", { name: "a" }).focus();
  rerender(<List rows={["a"]} />);
  expect(screen.getByRole("button", { name: "a" })).toHaveFocus();
});
