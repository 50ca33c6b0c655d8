// Forms that are saved as JSON: what is unsaved, versions of files, and what to do when somebody else was quicker.
import { notice } from "./panel.js";

const words = document.getElementById("record-words")?.dataset ?? {};
const open = new Set();
addEventListener("beforeunload", (event) => {
  if (open.size) event.preventDefault();
});

// JSON to and from the server with the version of a file; throws an Error with the server's words, `status`, `body`.
export async function exchange(address, { method = "GET", body, expected } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (expected !== undefined) headers["If-Match"] = `"${expected}"`;
  let answer;
  try {
    answer = await fetch(address, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw Object.assign(new Error(words.unreachable), { status: 0, body: {} });
  }
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 401) throw Object.assign(new Error(words.login), { status: 401, body: found });
  if (!answer.ok) throw Object.assign(new Error(found.error ?? found.message ?? answer.statusText), { status: answer.status, body: found });
  const version = (answer.headers.get("ETag") ?? "").replace(/^W\//, "").replaceAll('"', "");
  return { found, fingerprint: version };
}

// One form: `gather` gives what is saved, `address` says where to; `saved` is called with the answer.
export class Record {
  constructor(root, { address, gather, fingerprint = "", saved = () => {} }) {
    Object.assign(this, { root, address, gather, fingerprint, saved, dirty: false });
    this.state = root.querySelector("[data-record-state]");
    root.addEventListener("input", (event) => event.target.closest("[data-unsaved-no]") ?? this.touch());
    root.querySelector("[data-record-save]")?.addEventListener("click", () => this.save());
    document.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key === "s" && !event.defaultPrevented) {
        event.preventDefault();
        this.save();
      }
    });
  }

  touch() {
    this.dirty = true;
    open.add(this);
    this.mark("unsaved", words.unsaved);
  }

  clean() {
    this.dirty = false;
    open.delete(this);
    this.mark("", "");
  }

  mark(state, text) {
    if (!this.state) return;
    this.state.dataset.state = state;
    this.state.textContent = text;
  }

  async save(expected = this.fingerprint) {
    if (this.saving) return false;
    let body;
    try {
      body = this.gather();
    } catch (fault) {
      this.mark("failed", words.failed);
      notice(fault.message, "bad");
      return false;
    }
    this.saving = true;
    this.mark("saving", words.saving);
    try {
      const { found, fingerprint } = await exchange(this.address(), { method: "POST", body, expected });
      this.fingerprint = fingerprint || this.fingerprint;
      this.clean();
      this.mark("saved", words.saved);
      this.saved(found);
      return true;
    } catch (fault) {
      this.touch();
      this.mark("failed", words.failed);
      if (fault.status === 409 && fault.body.current !== undefined) {
        this.saving = false;
        return await this.conflict(fault.body);
      }
      notice(fault.message, "bad");
      return false;
    } finally {
      this.saving = false;
    }
  }

  // The file has changed meanwhile: it is shown, and the person decides; going on with editing loses nothing.
  async conflict(found) {
    const dialog = document.createElement("dialog");
    dialog.className = "dialog large";
    const told = document.createElement("p");
    told.textContent = words.conflict;
    const theirs = document.createElement("pre");
    theirs.className = "preview-text";
    theirs.tabIndex = 0;
    theirs.textContent = found.content || words.gone;
    const row = document.createElement("div");
    row.className = "row end";
    const choices = { cancel: [words.cancel, ""], theirs: [words.theirs, ""], mine: [words.mine, "danger"] };
    for (const [value, [label, kind]] of Object.entries(choices)) {
      const button = document.createElement("button");
      button.type = "button";
      button.value = value;
      button.className = `button ${kind}`;
      button.textContent = label;
      row.append(button);
    }
    dialog.append(told, theirs, row);
    document.body.append(dialog);
    dialog.showModal();
    const choice = await new Promise((resolve) => {
      row.addEventListener("click", (event) => event.target.value && resolve(event.target.value));
      dialog.addEventListener("cancel", () => resolve("cancel"));
    });
    dialog.remove();
    if (choice === "mine") return this.save(found.current);
    if (choice === "theirs") {
      this.clean();
      location.reload();
    }
    return false;
  }
}

// Rows that are put in order: by dragging their handle, and by the buttons up and down. `moved` is told afterwards.
export async function movable(list, moved) {
  const live = document.getElementById("record-live");
  list.addEventListener("click", (event) => {
    const button = event.target.closest("[data-move]");
    const row = button?.closest("[data-row]");
    if (!row || row.parentElement !== list) return;
    const other = button.dataset.move === "up" ? row.previousElementSibling : row.nextElementSibling;
    if (!other) return;
    if (button.dataset.move === "up") other.before(row);
    else other.after(row);
    button.focus();
    moved();
    const place = [...list.children].indexOf(row) + 1;
    if (live) live.textContent = words.place.replace("%1", place).replace("%2", list.children.length);
  });
  const { Sortable } = await import("./vendor/sortable.js");
  Sortable.create(list, { handle: "[data-handle]", animation: 120, onEnd: moved });
}

// A copy of a <template>.
export function made(id) {
  return document.getElementById(id).content.firstElementChild.cloneNode(true);
}

// Gives the controls of a copied row ids of their own, so that labels find them.
let count = 0;
export function labelled(row) {
  count += 1;
  for (const control of row.querySelectorAll("[data-name]")) {
    control.id = `row-${count}-${control.dataset.name}`;
    row.querySelector(`label[data-for="${control.dataset.name}"]`)?.setAttribute("for", control.id);
  }
  return row;
}
