// Creating a job: the guide chooses a kind, then form and YAML edit one manifest.

import { PageSection } from "@patternfly/react-core";
import { Route, Routes } from "react-router-dom";
import { PageHeader } from "../components/page-header";
import { messages } from "../messages";
import { FileDrop } from "./file-drop";
import { Guide } from "./guide";
import { Wizard } from "./wizard";

const text = messages.create;

export function CreatePage() {
  return (
    <FileDrop>
      <Routes>
        <Route
          index
          element={
            <>
              <PageHeader title={text.guide.title} description={text.guide.description} />
              <PageSection>
                <Guide />
              </PageSection>
            </>
          }
        />
        <Route path="job" element={<Wizard />} />
      </Routes>
    </FileDrop>
  );
}
