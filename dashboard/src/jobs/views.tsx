// Views: addresses of the list under a name. The browser keeps those that a person saves; others get the address.

import {
  Button,
  Divider,
  Dropdown,
  DropdownItem,
  DropdownList,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  MenuItemAction,
  MenuToggle,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from "@patternfly/react-core";
import TrashIcon from "@patternfly/react-icons/dist/esm/icons/trash-icon";
import { useState } from "react";
import { useLocation, useNavigate } from "react-router-dom";
import { recallJson, remember } from "../browser/storage";
import { useToast } from "../components/toasts";
import { messages } from "../messages";

const text = messages.jobs.views;
const storageKey = "training.views";

type SavedView = { name: string; query: string };

const builtIn: SavedView[] = [
  { name: text.builtIn.all, query: "" },
  { name: text.builtIn.active, query: "phase=Running&phase=Pending" },
  { name: text.builtIn.failed, query: "phase=Failed&since=7d" },
];

export function ViewsMenu() {
  const navigate = useNavigate();
  const { search } = useLocation();
  const { show } = useToast();
  const [open, setOpen] = useState(false);
  const [naming, setNaming] = useState(false);
  const [saved, setSaved] = useState(savedViews);
  const keep = (views: SavedView[]) => {
    setSaved(views);
    remember(storageKey, JSON.stringify(views));
  };
  const save = (name: string) => {
    const query = new URLSearchParams(search);
    query.delete("continue");
    keep([...saved.filter((view) => view.name !== name), { name, query: query.toString() }]);
    setNaming(false);
    show(text.saved(name));
  };
  const item = (view: SavedView, removable: boolean) => (
    <DropdownItem
      key={view.name}
      onClick={() => void navigate({ search: view.query })}
      actions={
        removable && (
          <MenuItemAction
            icon={<TrashIcon />}
            aria-label={text.remove(view.name)}
            onClick={() => keep(saved.filter((other) => other !== view))}
          />
        )
      }
    >
      <bdi>{view.name}</bdi>
    </DropdownItem>
  );
  return (
    <>
      <Dropdown
        shouldFocusFirstItemOnOpen
        isOpen={open}
        onOpenChange={setOpen}
        onSelect={() => setOpen(false)}
        popperProps={{ appendTo: "inline" }}
        toggle={(toggle) => (
          <MenuToggle ref={toggle} isExpanded={open} onClick={() => setOpen(!open)}>
            {text.toggle}
          </MenuToggle>
        )}
      >
        <DropdownList>
          {builtIn.map((view) => item(view, false))}
          {saved.length > 0 && <Divider component="li" />}
          {saved.map((view) => item(view, true))}
          <Divider component="li" />
          <DropdownItem onClick={() => setNaming(true)}>{text.save}</DropdownItem>
        </DropdownList>
      </Dropdown>
      {naming && <NameDialog onSave={save} onCancel={() => setNaming(false)} />}
    </>
  );
}

function NameDialog({ onSave, onCancel }: { onSave: (name: string) => void; onCancel: () => void }) {
  const [name, setName] = useState("");
  return (
    <Modal isOpen variant="small" onClose={onCancel} aria-labelledby="view-title" elementToFocus="#view-name">
      <ModalHeader title={text.save} labelId="view-title" />
      <ModalBody>
        <Form
          id="view-form"
          onSubmit={(event) => {
            event.preventDefault();
            if (name.trim()) onSave(name.trim());
          }}
        >
          <FormGroup label={text.name} fieldId="view-name" isRequired>
            <TextInput
              id="view-name"
              value={name}
              onChange={(_event, value) => setName(value)}
              maxLength={60}
              isRequired
            />
            <FormHelperText>
              <HelperText>
                <HelperTextItem>{text.hint}</HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="view-form" isDisabled={!name.trim()}>
          {text.save}
        </Button>
        <Button variant="link" onClick={onCancel}>
          {messages.common.cancel}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

function savedViews(): SavedView[] {
  const isView = (value: unknown): value is SavedView => {
    const { name, query } = (value ?? {}) as Partial<SavedView>;
    return typeof name === "string" && typeof query === "string";
  };
  return recallJson(storageKey, (value): value is SavedView[] => Array.isArray(value) && value.every(isView), []);
}
