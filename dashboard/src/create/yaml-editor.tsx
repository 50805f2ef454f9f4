// The YAML editor. It stays in step with the form; a change from outside keeps the cursor where it is.
//
// It lives in a shadow root, because CodeMirror then adds its styles as constructed style sheets, which the content security
// policy permits; `<style>` elements it does not.

import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, Transaction } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "react";
import { messages } from "../messages";

const token = (name: string) => `var(--pf-t--global--${name})`;

const highlight = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: token("text--color--link--default") },
  { tag: [tags.comment, tags.lineComment], color: token("text--color--subtle"), fontStyle: "italic" },
  { tag: [tags.keyword, tags.bool, tags.number], fontWeight: "bold" },
]);

const theme = EditorView.theme({
  "&": {
    color: token("text--color--regular"),
    backgroundColor: token("background--color--primary--default"),
    border: `1px solid ${token("border--color--default")}`,
    borderRadius: token("border--radius--small"),
    fontSize: token("font--size--body--default"),
    minHeight: "24rem",
  },
  "&.cm-focused": { outline: `2px solid ${token("border--color--clicked")}` },
  ".cm-scroller": { fontFamily: token("font--family--mono"), overflow: "auto" },
  ".cm-content": { caretColor: token("text--color--regular") },
  ".cm-cursor": { borderLeftColor: token("text--color--regular") },
  ".cm-gutters": {
    color: token("text--color--subtle"),
    backgroundColor: token("background--color--secondary--default"),
    border: "none",
  },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: token("background--color--primary--hover") },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    background: `${token("background--color--action--plain--clicked")} !important`,
  },
  ".cm-tooltip": {
    color: token("text--color--regular"),
    backgroundColor: token("background--color--floating--default"),
    border: `1px solid ${token("border--color--default")}`,
  },
});

export type EditorFault = { line: number; message: string };

type Props = { text: string; onChange: (text: string) => void; faults: readonly EditorFault[] };

export default function YamlEditor({ text, onChange, faults }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>();
  const notify = useRef(onChange);
  notify.current = onChange;
  const first = useRef(text);
  // What was typed here and has not come back as `text` yet. While it does, it is older than what the editor shows.
  const onItsWay = useRef<string[]>([]);

  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const editor = new EditorView({
      state: startState(first.current, (next) => {
        onItsWay.current.push(next);
        notify.current(next);
      }),
      parent: root as unknown as Element,
      root,
    });
    view.current = editor;
    return () => editor.destroy();
  }, []);

  useEffect(() => {
    const typed = onItsWay.current.indexOf(text);
    onItsWay.current.splice(0, typed < 0 ? onItsWay.current.length : typed + 1);
    const editor = view.current;
    if (editor && !onItsWay.current.length) replace(editor, text);
  }, [text]);

  useEffect(() => {
    const editor = view.current;
    if (editor)
      editor.dispatch(
        setDiagnostics(
          editor.state,
          faults.map((fault) => diagnostic(editor, fault)),
        ),
      );
  }, [faults]);

  return <div ref={host} className="app-editor" />;
}

function startState(text: string, onChange: (text: string) => void): EditorState {
  return EditorState.create({
    doc: text,
    extensions: [
      lineNumbers(),
      history(),
      drawSelection(),
      indentOnInput(),
      bracketMatching(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      yaml(),
      syntaxHighlighting(highlight),
      theme,
      // Without scrolling sideways, everything can be read with the keyboard and at 200 %.
      EditorView.lineWrapping,
      // Tab leaves the editor, as keyboards need it.
      keymap.of([...defaultKeymap, ...historyKeymap, ...searchKeymap]),
      EditorView.contentAttributes.of({ "aria-label": messages.create.yaml.label, tabindex: "0" }),
      EditorView.updateListener.of((update) => {
        const own = update.transactions.some((one) => one.annotation(Transaction.remote));
        if (update.docChanged && !own) onChange(update.state.doc.toString());
      }),
    ],
  });
}

/** Replaces only the part that differs, so that cursor, selection and scroll position stay. */
function replace(editor: EditorView, text: string): void {
  const before = editor.state.doc.toString();
  if (before === text) return;
  let start = 0;
  while (start < before.length && start < text.length && before[start] === text[start]) start += 1;
  let end = 0;
  const most = Math.min(before.length, text.length) - start;
  while (end < most && before[before.length - 1 - end] === text[text.length - 1 - end]) end += 1;
  editor.dispatch({
    changes: { from: start, to: before.length - end, insert: text.slice(start, text.length - end) },
    annotations: Transaction.remote.of(true),
  });
}

function diagnostic(editor: EditorView, { line, message }: EditorFault): Diagnostic {
  const at = editor.state.doc.line(Math.min(Math.max(1, line), editor.state.doc.lines));
  return { from: at.from, to: at.to, severity: "error", message };
}
