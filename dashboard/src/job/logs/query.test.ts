import { describe, expect, test } from "vitest";
import { noMatchHint, numbers, plain, ranges, readQuery, requestOf, writeQuery } from "./query";

describe("what to read of a log", () => {
  test("is in the address, and nothing of it that is as usual", () => {
    expect(readQuery(new URLSearchParams())).toEqual(plain);
    expect(writeQuery(new URLSearchParams("at=5"), {}).toString()).toBe("at=5");
    const chosen = {
      from: [0, 1, 2, 7],
      search: "loss=.*",
      regex: true,
      context: 3,
      level: "warning",
    } as const;
    const address = writeQuery(new URLSearchParams(), chosen);
    expect(address.get("from")).toBe("0-2,7");
    expect(readQuery(address)).toEqual({ ...plain, ...chosen });
    expect(writeQuery(address, plain).toString()).toBe("");
  });

  test("that makes no sense is as usual", () => {
    const query = readQuery(new URLSearchParams("from=<script>&level=loud&context=-5&ranks=x,2&whole=maybe"));
    expect(query).toEqual({ ...plain, ranks: [2] });
    expect(readQuery(new URLSearchParams("context=99999")).context).toBe(1000);
  });

  test("is asked of the service, which searches all lines and otherwise sends the newest", () => {
    expect(requestOf(plain, true).toString()).toBe("fold=true&split=true&follow=true&tail=20000");
    expect(requestOf({ ...plain, from: "all" }, false).get("tail")).toBe("1000");
    expect(requestOf({ ...plain, from: [1, 2] }, false).getAll("worker")).toEqual(["1", "2"]);
    const search = requestOf({ ...plain, search: "a.b", context: 2 }, false);
    expect([search.get("grep"), search.get("context"), search.get("tail")]).toEqual(["(?i)a\\.b", "2", null]);
    expect(requestOf({ ...plain, search: "a.b", regex: true, matchCase: true }, false).get("grep")).toBe("a.b");
    expect(requestOf({ ...plain, whole: true }, false).get("tail")).toBeNull();
  });
});

describe("numbers of Workers and ranks", () => {
  test("are written as ranges", () => {
    expect(numbers("7, 0-3 2")).toEqual([0, 1, 2, 3, 7]);
    expect(ranges([3, 1, 2, 7, 2])).toBe("1-3,7");
    expect(ranges([])).toBe("");
  });

  test("are bounded, and nothing else is taken for one", () => {
    expect(numbers("0-999999").length).toBe(10_000);
    expect(numbers("a 1e3 -4 5- 0x1")).toEqual([]);
  });
});

test("where no line matches ranks, the hint says that lines need tags", () => {
  expect(noMatchHint({ ranks: [3] })).toContain("--tag-output");
  expect(noMatchHint({ ranks: [] })).toBe("Change the search, the level or the pods.");
});
