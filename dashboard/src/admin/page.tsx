// For administrators: what the cluster is used for. The service returns what the person may see, and says what it left out.

import { PageSection, Tab, Tabs, TabTitleText } from "@patternfly/react-core";
import { useLocation, useNavigate, useParams } from "react-router-dom";
import { PageHeader } from "../components/page-header";
import { TabKeys } from "../components/tab-keys";
import { messages } from "../messages";
import { Audit } from "./audit";
import { Capacity } from "./capacity";
import { Overview } from "./overview";
import { UsageTab } from "./usage";

const text = messages.admin;
const tabs = { overview: <Overview />, capacity: <Capacity />, usage: <UsageTab />, audit: <Audit /> };
type TabName = keyof typeof tabs;

export function AdminPage() {
  const navigate = useNavigate();
  const { search } = useLocation();
  const rest = useParams()["*"] ?? "";
  const active: TabName = rest in tabs ? (rest as TabName) : "overview";
  return (
    <>
      <PageHeader title={text.title} />
      <PageSection isFilled>
        <TabKeys active={active}>
          <Tabs
            activeKey={active}
            onSelect={(_event, key) => void navigate(`/admin/${key}${search}`)}
            aria-label={text.title}
            role="region"
            mountOnEnter
            unmountOnExit
          >
            {(Object.keys(tabs) as TabName[]).map((name) => (
              <Tab key={name} eventKey={name} title={<TabTitleText>{text.tabs[name]}</TabTitleText>}>
                <div className="app-tab">{tabs[name]}</div>
              </Tab>
            ))}
          </Tabs>
        </TabKeys>
      </PageSection>
    </>
  );
}
