// A host with ODH Dashboard's loader and frame: it reads the remotes from the page, registers them with the runtime of
// module federation without a type, loads `NAME/extensions` of each, and shows entries of navigation and routes whose areas
// it has. Of ODH Dashboard's extension points it knows those three.

import "@patternfly/react-core/dist/styles/base.css";
import "./host.css";
import { init, loadRemote } from "@module-federation/runtime";
import {
  Masthead,
  MastheadBrand,
  MastheadMain,
  Nav,
  NavExpandable,
  NavItem,
  NavList,
  Page,
  PageSection,
  PageSidebar,
  PageSidebarBody,
  Title,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Tr } from "@patternfly/react-table";
import { type ComponentType, lazy, StrictMode, Suspense, useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import { createBrowserRouter, Link, Route, RouterProvider, Routes, useMatch } from "react-router-dom";

type Remote = { name: string; remoteEntry: string };
type Flags = { flags?: { required?: readonly string[] } };
type Area = { type: "app.area"; properties: { id: string } };
type Entry = Flags & {
  type: "app.navigation/href";
  properties: { id: string; title: string; section?: string; href: string; path?: string };
};
type Pages = Flags & {
  type: "app.route";
  properties: { path: string; component: () => Promise<{ default: ComponentType }> };
};
type Extension = Area | Entry | Pages;

const section = { id: "develop-and-train", title: "Develop & train" };

const remotes: Remote[] = JSON.parse(document.getElementById("mf-remotes-json")?.textContent ?? "[]");
init({
  name: "app",
  remotes: remotes.map(({ name, remoteEntry }) => ({ name, entry: `/_mf/${name}${remoteEntry}` })),
});

async function extensionsOf({ name }: Remote): Promise<Extension[]> {
  const module = await loadRemote<{ default: Extension[] }>(`${name}/extensions`);
  return module?.default ?? [];
}

function Host() {
  const [extensions, setExtensions] = useState<Extension[]>();
  useEffect(() => {
    void Promise.all(remotes.map(extensionsOf)).then((all) => setExtensions(all.flat()));
  }, []);
  if (!extensions) return null;
  const areas = extensions.flatMap((one) => (one.type === "app.area" ? [one.properties.id] : []));
  const isOn = ({ flags }: Flags) => flags?.required?.every((flag) => areas.includes(flag)) ?? true;
  const entries = extensions.filter((one) => one.type === "app.navigation/href").filter(isOn);
  const pages = extensions.filter((one) => one.type === "app.route").filter(isOn);
  return (
    <Page
      isManagedSidebar
      isContentFilled
      mainContainerId="host-main"
      masthead={<Top />}
      sidebar={<Side of={entries} />}
    >
      <Routes>
        <Route path="/" element={<Home />} />
        {pages.map(({ properties: { path, component } }) => (
          <Route key={path} path={path} element={<Lazy component={component} />} />
        ))}
      </Routes>
    </Page>
  );
}

function Lazy({ component }: { component: Pages["properties"]["component"] }) {
  const Loaded = useMemo(() => lazy(component), [component]);
  return (
    <Suspense fallback={null}>
      <Loaded />
    </Suspense>
  );
}

function Top() {
  return (
    <Masthead>
      <MastheadMain>
        <MastheadBrand>
          <Link to="/">The host</Link>
        </MastheadBrand>
      </MastheadMain>
    </Masthead>
  );
}

function Side({ of: entries }: { of: Entry[] }) {
  return (
    <PageSidebar>
      <PageSidebarBody>
        <Nav aria-label="Host navigation">
          <NavList>
            <NavExpandable title={section.title} isExpanded>
              {entries
                .filter(({ properties }) => properties.section === section.id)
                .map(({ properties }) => (
                  <SideEntry key={properties.id} {...properties} />
                ))}
            </NavExpandable>
          </NavList>
        </Nav>
      </PageSidebarBody>
    </PageSidebar>
  );
}

function SideEntry({ href, path, title }: Entry["properties"]) {
  return (
    <NavItem isActive={!!useMatch(path ?? href)}>
      <Link to={href}>{title}</Link>
    </NavItem>
  );
}

// A page of the host has a table too, so that the host has the package of tables to share.
function Home() {
  return (
    <PageSection>
      <Title headingLevel="h1">Home of the host</Title>
      <Table aria-label="Remotes">
        <Tbody>
          {remotes.map(({ name, remoteEntry }) => (
            <Tr key={name}>
              <Td>{name}</Td>
              <Td>{remoteEntry}</Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </PageSection>
  );
}

const router = createBrowserRouter([{ path: "*", element: <Host /> }]);
const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  );
}
