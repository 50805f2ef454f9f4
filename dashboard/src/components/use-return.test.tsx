import { act, render } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { useReturn } from "./use-return";

const reload = vi.fn();

beforeEach(() => {
  sessionStorage.clear();
  vi.useFakeTimers();
  vi.spyOn(window.location, "reload").mockImplementation(reload);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  reload.mockClear();
});

function NotLoaded({ isBack }: { isBack: () => Promise<boolean> }) {
  useReturn(isBack);
  return null;
}

/** A service that answers from the n-th question on. */
function backFrom(first: number) {
  let asked = 0;
  return async () => {
    asked += 1;
    return asked >= first;
  };
}

const wait = (milliseconds: number) => act(() => vi.advanceTimersByTimeAsync(milliseconds));

test("a page that could not be loaded is loaded again when the service answers", async () => {
  render(<NotLoaded isBack={backFrom(3)} />);
  await wait(3_000);
  expect(reload).not.toHaveBeenCalled();
  await wait(2_000);
  expect(reload).toHaveBeenCalledTimes(1);
});

test("what cannot be loaded although the service answers is not loaded over and over", async () => {
  const isBack = backFrom(1);
  for (let times = 0; times < 3; times++) {
    const page = render(<NotLoaded isBack={isBack} />);
    await wait(10_000);
    page.unmount();
  }
  expect(reload).toHaveBeenCalledTimes(1);
});

test("a person who goes elsewhere meanwhile stays there", async () => {
  const page = render(<NotLoaded isBack={backFrom(2)} />);
  await wait(0);
  page.unmount();
  await wait(10_000);
  expect(reload).not.toHaveBeenCalled();
});
