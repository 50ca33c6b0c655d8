// Editors of text files: every element with data-editor. CodeMirror is loaded at the first one.
import { api, notice } from "./panel.js";

const nonce = document.querySelector('meta[name="csp-nonce"]')?.content ?? "";
let unsaved = 0;
addEventListener("beforeunload", (event) => {
  if (unsaved > 0) event.preventDefault();
});

class Editor {
  constructor(root, cm) {
    this.root = root;
    this.cm = cm;
    this.source = root.querySelector(".editor-source");
    this.state = root.querySelector(".editor-state");
    this.button = root.querySelector("[data-editor-save]");
    this.fingerprint = root.dataset.fingerprint;
    this.kept = this.source.value;
    this.dirty = false;
    this.view = new cm.EditorView({ doc: this.kept, extensions: this.extensions(), parent: root });
    this.source.hidden = true;
    this.button?.addEventListener("click", () => this.save());
    root.editorText = () => this.text();
    root.setEditorText = (text, fingerprint) => this.replace(text, fingerprint);
    root.insertText = (text) => this.insert(text);
    root.saveEditor = () => this.save();
    this.mark("");
  }

  extensions() {
    const { cm, root } = this;
    const languages = { markdown: () => cm.markdown(), json: () => cm.json(), env: () => cm.StreamLanguage.define(cm.properties) };
    const style = cm.HighlightStyle.define([
      { tag: [cm.tags.heading, cm.tags.strong], fontWeight: "650" },
      { tag: cm.tags.emphasis, fontStyle: "italic" },
      { tag: [cm.tags.comment, cm.tags.quote, cm.tags.meta], color: "var(--muted)" },
      { tag: [cm.tags.propertyName, cm.tags.definition(cm.tags.variableName), cm.tags.link, cm.tags.keyword], color: "var(--accent)" },
      { tag: [cm.tags.string, cm.tags.url], color: "var(--ok)" },
      { tag: [cm.tags.number, cm.tags.bool, cm.tags.null], color: "var(--warn)" },
    ]);
    const look = cm.EditorView.theme({
      "&": { color: "var(--text)", backgroundColor: "var(--surface)" },
      ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)" },
      ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "none" },
      ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
      "&.cm-focused .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection": { backgroundColor: "color-mix(in srgb, var(--accent) 28%, transparent)" },
      "&.cm-focused": { outline: "none" },
      ".cm-cursor": { borderLeftColor: "var(--text)" },
      ".cm-panels, .cm-tooltip": { backgroundColor: "var(--surface-2)", color: "var(--text)", borderColor: "var(--line)" },
      ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
    });
    const extensions = [
      cm.EditorView.cspNonce.of(nonce),
      cm.lineNumbers(), cm.history(), cm.drawSelection(), cm.highlightActiveLine(), cm.bracketMatching(), cm.search({ top: true }),
      cm.EditorView.lineWrapping, cm.syntaxHighlighting(style), look,
      cm.EditorView.contentAttributes.of({ "aria-label": this.source.getAttribute("aria-label") || "text", tabindex: "0" }),
      cm.keymap.of([
        { key: "Mod-s", run: () => (this.save(), true), preventDefault: true },
        ...cm.defaultKeymap, ...cm.historyKeymap, ...cm.searchKeymap, ...cm.completionKeymap,
      ]),
      cm.EditorView.updateListener.of((update) => update.docChanged && this.changed()),
    ];
    const language = languages[root.dataset.language];
    if (language) extensions.push(language());
    if (root.dataset.completions) extensions.push(cm.autocompletion({ override: [(context) => this.complete(context)] }));
    else extensions.push(cm.autocompletion({ override: [() => null] }));
    return extensions;
  }

  async complete(context) {
    const word = context.matchBefore(/(\{\{|\[\[|<<|《《)[^{}[\]<>《》\n]*/);
    if (!word) return null;
    this.words ??= api(this.root.dataset.completions).then((found) => (Array.isArray(found) ? found : found.completions), () => []);
    return { from: word.from, options: await this.words, validFor: /^[^{}[\]<>《》\n]*$|^(\{\{|\[\[|<<|《《)[^{}[\]<>《》\n]*$/ };
  }

  plain() {
    return this.view.state.doc.toString();
  }

  text() {
    return this.root.dataset.newline === "crlf" ? this.plain().replaceAll("\n", "\r\n") : this.plain();
  }

  replace(text, fingerprint) {
    const plain = text.replaceAll("\r\n", "\n");
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: plain } });
    if (fingerprint !== undefined) {
      this.fingerprint = fingerprint;
      this.kept = plain;
      this.changed();
      this.mark("");
    }
  }

  insert(text) {
    this.view.dispatch(this.view.state.replaceSelection(text));
    this.view.focus();
  }

  changed() {
    const dirty = this.plain() !== this.kept;
    if (dirty !== this.dirty) unsaved += dirty ? 1 : -1;
    this.dirty = dirty;
    this.mark(dirty ? "unsaved" : "");
    this.root.dispatchEvent(new CustomEvent("editor:change", { bubbles: true, detail: { text: this.plain(), dirty } }));
  }

  mark(state, words) {
    if (!this.state) return;
    this.state.dataset.state = state;
    const names = { unsaved: "textUnsaved", saved: "textSaved", saving: "textSaving", failed: "textFailed" };
    this.state.textContent = words ?? this.root.dataset[names[state]] ?? "";
  }

  async save(expected = this.fingerprint) {
    if (this.saving || !this.root.dataset.save) return;
    this.saving = true;
    this.mark("saving");
    const plain = this.plain();
    const extra = JSON.parse(this.root.dataset.extra || "{}");
    try {
      const answer = await fetch(this.root.dataset.save, {
        method: "POST",
        headers: { "Content-Type": "application/json", Accept: "application/json" },
        body: JSON.stringify({ ...extra, [this.root.dataset.field]: this.text(), expected }),
      });
      const found = await answer.json().catch(() => ({}));
      if (answer.status === 409 && found.current !== undefined) return await this.conflict(found);
      if (answer.status === 401) return this.failed(this.root.dataset.textLogin);
      if (!answer.ok) return this.failed(found.error ?? found.message ?? answer.statusText);
      this.fingerprint = found.fingerprint ?? answer.headers.get("ETag")?.replaceAll('"', "").replace(/^W\//, "") ?? this.fingerprint;
      this.kept = plain;
      this.changed();
      if (!this.dirty) this.mark("saved");
      if (found.warning) notice(found.warning, "warn");
      this.root.dispatchEvent(new CustomEvent("editor:saved", { bubbles: true, detail: { text: plain, answer: found } }));
    } catch {
      this.failed(this.root.dataset.textUnreachable);
    } finally {
      this.saving = false;
    }
  }

  failed(words) {
    this.mark("failed");
    notice(words, "bad");
  }

  // The file has changed on disk: both versions beside each other, and nothing is lost.
  async conflict(found) {
    const { cm, root } = this;
    this.mark("failed");
    const theirs = (found.content ?? "").replaceAll("\r\n", "\n");
    const dialog = document.createElement("dialog");
    dialog.className = "dialog large";
    const words = document.createElement("p");
    words.textContent = root.dataset.textConflict;
    const place = document.createElement("div");
    place.className = "merge";
    const row = document.createElement("div");
    row.className = "row end";
    const button = (label, kind) => {
      const made = document.createElement("button");
      made.type = "button";
      made.className = `button ${kind}`;
      made.textContent = label;
      row.append(made);
      return made;
    };
    const cancel = button(root.dataset.textCancel, "");
    const take = button(root.dataset.textTheirs, "");
    const mine = button(root.dataset.textMine, "primary");
    dialog.append(words, place, row);
    document.body.append(dialog);
    const common = [cm.EditorView.cspNonce.of(nonce), cm.lineNumbers(), cm.EditorView.lineWrapping];
    const merge = new cm.MergeView({
      a: { doc: theirs, extensions: [...common, cm.EditorState.readOnly.of(true)] },
      b: { doc: this.plain(), extensions: [...common, cm.history(), cm.keymap.of([...cm.defaultKeymap, ...cm.historyKeymap])] },
      parent: place,
    });
    dialog.showModal();
    const choice = await new Promise((resolve) => {
      cancel.addEventListener("click", () => resolve("cancel"));
      take.addEventListener("click", () => resolve("theirs"));
      mine.addEventListener("click", () => resolve("mine"));
      dialog.addEventListener("cancel", () => resolve("cancel"));
    });
    const merged = merge.b.state.doc.toString();
    merge.destroy();
    dialog.remove();
    this.saving = false;
    if (choice === "theirs") this.replace(theirs, found.current);
    if (choice === "mine") {
      this.replace(merged);
      await this.save(found.current);
    }
    if (choice === "cancel") this.mark("unsaved");
  }
}

async function start(within = document) {
  const roots = [...within.querySelectorAll("[data-editor]:not([data-started])")];
  if (!roots.length) return;
  for (const root of roots) root.dataset.started = "";
  const address = new URL(import.meta.url);
  const cm = await import(new URL("vendor/codemirror.js", address).href);
  for (const root of roots) new Editor(root, cm);
}

document.addEventListener("htmx:afterSettle", (event) => start(event.target));
start();
