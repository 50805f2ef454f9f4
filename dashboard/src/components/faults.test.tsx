import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { FaultList, lastName } from "./faults";

const pod = "spec.mpiReplicaSpecs[Worker].template.spec";

test.each([
  ["image", "image"],
  ["metadata.name", "name"],
  ["metadata.annotations[training.opendatahub.io/launch]", "training.opendatahub.io/launch"],
  [`${pod}.containers[0].image`, "image (Worker)"],
  [`${pod}.containers[0]`, "containers (Worker)"],
  [`${pod}.containers[0].resources.limits[memory]`, "memory (Worker)"],
  ["spec.mpiReplicaSpecs", "mpiReplicaSpecs"],
  ["mounts[0]", "mounts"],
  ["", ""],
])("of the path %j, a fault begins with %j", (path, name) => {
  expect(lastName(path)).toBe(name);
});

test("a fault begins with the field's name, and the path is in the details", async () => {
  const faults = [
    { path: `${pod}.hostNetwork`, fault: "is not allowed", fix: "omit it" },
    { path: "image", fault: "is required" },
  ];
  render(<FaultList faults={faults} />);
  expect(screen.getAllByRole("listitem").map((item) => item.textContent)).toEqual([
    "hostNetwork (Worker) is not allowed: omit it",
    "image is required",
  ]);
  await userEvent.click(screen.getByRole("button", { name: "Details" }));
  expect(screen.getByText(`${pod}.hostNetwork`)).toBeTruthy();
  expect(screen.queryByText("image:")).toBeNull();
});
