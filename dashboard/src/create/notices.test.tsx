import { render, screen } from "@testing-library/react";
import { expect, test } from "vitest";
import { labelAt, Warnings } from "./notices";

const pods = (role: string) => `spec.mpiReplicaSpecs[${role}].template.spec`;

test("a warning begins with the field's name, and says the same of several roles once", () => {
  const image = '"x:latest" may be a different image on each node';
  render(
    <Warnings
      warnings={[
        `${pods("Launcher")}.containers[0].image: ${image}`,
        `${pods("Worker")}.containers[0].image: ${image}`,
        `${pods("Worker")}.containers[0].resources: nvidia.com/gpu: 1 is reserved`,
        "the Launcher discovers its hosts, but: a failed Worker ends the job",
      ]}
    />,
  );
  expect(screen.getAllByRole("listitem").map((item) => item.textContent)).toEqual([
    `Training image ${image}`,
    "resources (Worker) nvidia.com/gpu: 1 is reserved",
    "the Launcher discovers its hosts, but: a failed Worker ends the job",
  ]);
});

test("a field that a kind's form does not show has its name all the same", () => {
  expect(labelAt("priority")).toBe("Priority class");
  expect(labelAt("launcher_cpu")).toBe("Limits (Launcher)");
  expect(labelAt(`${pods("Worker")}.hostNetwork`)).toBe("hostNetwork (Worker)");
});
