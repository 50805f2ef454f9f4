import { describe, expect, test } from "vitest";
import { columns, isFiltered, listQuery, partsOfColumn, sortable, sortedBy, sortOf, viewOf, withView } from "./filter";

const address = (text: string) => new URLSearchParams(text);

describe("the address of the list", () => {
  test("says everything that the list shows", () => {
    const text =
      "kind=mpijob&kind=trainjob&phase=Failed&owner=jane&since=7d&until=1d&q=bert&labels=team%3Dcv&sort=gpus&limit=100&continue=abc&columns=name,state";
    const { pages, ...view } = viewOf(address(text));
    expect(Object.fromEntries(withView(address(""), { ...view, pages }))).toEqual(Object.fromEntries(address(text)));
    expect(listQuery("team-cv", { ...view, pages })).toEqual({
      namespace: "team-cv",
      kind: ["mpijob", "trainjob"],
      phase: ["Failed"],
      owner: "jane",
      since: "7d",
      until: "1d",
      q: "bert",
      labels: "team=cv",
      sort: "gpus",
      limit: 100,
      continue: "abc",
      total: true,
    });
  });

  test("stays short while nothing is chosen", () => {
    expect(withView(address(""), viewOf(address(""))).toString()).toBe("");
    expect(isFiltered(viewOf(address("namespace=a&sort=name")))).toBe(false);
  });

  test("leads to the first page when a filter changes, and keeps what belongs to others", () => {
    const after = withView(address("namespace=team-cv&continue=a&continue=b"), { q: "x" });
    expect(after.toString()).toBe("namespace=team-cv&q=x");
  });

  test("with unknown words shows the list as if they were not there", () => {
    const view = viewOf(address("kind=cronjob&sort=owner&limit=9999&columns=secrets"));
    expect(view).toEqual(viewOf(address("")));
    expect(viewOf(address("columns=gpus")).columns).toEqual(["name", "gpus"]);
  });
});

describe("columns of metrics", () => {
  test("are in the address, each once, and ask for their values", () => {
    const view = viewOf(
      address("metric=last:loss&metric=highest:a,b:c&metric=last:loss&metric=first:loss&metric=last:"),
    );
    expect(view.metrics).toEqual(["last:loss", "highest:a,b:c"]);
    expect(view.metrics.map(partsOfColumn)).toEqual([
      ["last", "loss"],
      ["highest", "a,b:c"],
    ]);
    expect(viewOf(withView(address(""), view)).metrics).toEqual(view.metrics);
    expect(listQuery("", view).metrics).toBe(true);
    expect(listQuery("", viewOf(address("")))).not.toHaveProperty("metrics");
    expect(listQuery("", viewOf(address("")), true).metrics).toBe(true);
  });

  test("are bounded", () => {
    const many = Array.from({ length: 20 }, (_, index) => `metric=last:m${index}`).join("&");
    expect(viewOf(address(many)).metrics).toHaveLength(8);
  });
});

describe("sorting", () => {
  test("by age is the reverse of the time of creation", () => {
    expect(sortOf("created", "asc")).toBe("-created");
    expect(sortedBy("-created")).toEqual({ column: "created", direction: "asc" });
  });

  test("reads back what it wrote", () => {
    for (const column of columns.filter((one) => one in sortable)) {
      for (const direction of ["asc", "desc"] as const)
        expect(sortedBy(sortOf(column, direction))).toEqual({ column, direction });
    }
  });
});
