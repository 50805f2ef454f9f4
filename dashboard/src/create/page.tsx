// Creating a job: the guide chooses a kind, then form and YAML edit one manifest.

import { PageSection } from "@patternfly/react-core";
import { Route, Routes } from "react-router-dom";
import { FileDrop } from "./file-drop";
import { Guide } from "./guide";
import { GuideHeader } from "./header";
import { Wizard } from "./wizard";

export function CreatePage() {
  return (
    <FileDrop>
      <Routes>
        <Route
          index
          element={
            <>
              <GuideHeader />
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
