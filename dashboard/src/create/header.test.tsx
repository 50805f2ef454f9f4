import { render, screen } from "@testing-library/react";
import { MemoryRouter } from "react-router-dom";
import { expect, test } from "vitest";
import { CreateHeader } from "./header";

function open(props: Parameters<typeof CreateHeader>[0]) {
  render(
    <MemoryRouter>
      <CreateHeader {...props} />
    </MemoryRouter>,
  );
  return {
    title: screen.getByRole("heading", { level: 1 }).textContent,
    places: screen.getAllByRole("listitem").map((one) => one.textContent),
  };
}

test("the title has the kind, and another kind is one click away, in the same namespace", () => {
  const { title, places } = open({ kind: "pytorchjob", namespace: "team" });
  expect([title, document.title]).toEqual(["Create PyTorchJob", "Create PyTorchJob · Training jobs"]);
  expect(places).toEqual(["Jobs", "Create job", "PyTorchJob"]);
  const link = screen.getByRole("link", { name: "Choose another kind of job" });
  expect(link.getAttribute("href")).toBe("/create?namespace=team");
});

test("a copy of a job has its own title, and no other kind", () => {
  const { title, places } = open({ title: "A copy of resnet", kind: "mpijob" });
  expect([title, places.at(-1)]).toEqual(["A copy of resnet", "A copy of resnet"]);
  expect(screen.queryByRole("link", { name: "Choose another kind of job" })).toBeNull();
});

test("a manifest without a kind has the title of any job", () => {
  expect(open({}).title).toBe("Create job");
});
