// Names of agents: rows of a table, saved together.
import { Record, made, movable } from "./records.js";

const root = document.getElementById("agent-names");
const list = root.querySelector("[data-rows]");
const listed = JSON.parse(document.getElementById("agent-rows").textContent);
const files = new Set([...document.querySelectorAll("#agent-files option")].map((option) => option.value));
for (const { file, found } of listed) if (found) files.add(file.replaceAll("\\", "/"));

function add({ alias, file }) {
  const row = made("name-row");
  row.querySelector("[data-alias]").value = alias;
  row.querySelector("[data-file]").value = file;
  list.append(row);
  return row;
}

const rows = () => [...list.children].map((row) => ({ row, alias: row.querySelector("[data-alias]").value.trim(), file: row.querySelector("[data-file]").value.trim() }));

// Says of each row whether its name stands twice or its file is missing, else leads to the file.
function told() {
  const count = new Map();
  for (const { alias } of rows()) count.set(alias, (count.get(alias) ?? 0) + 1);
  for (const { row, alias, file } of rows()) {
    const path = file.replaceAll("\\", "/");
    const twice = Boolean(alias) && count.get(alias) > 1;
    const fault = twice ? root.dataset.twice : file && !files.has(path) ? root.dataset.missing : "";
    const said = document.createElement(fault ? "span" : "a");
    said.textContent = fault || root.dataset.open;
    if (fault) Object.assign(said, { className: "badge" }).dataset.kind = "bad";
    else said.href = `${root.dataset.address}?file=${encodeURIComponent(path)}`;
    row.querySelector("[data-told]").replaceChildren(...(file || fault ? [said] : []));
    row.querySelector("[data-alias]").toggleAttribute("aria-invalid", twice);
  }
}

const record = new Record(root, {
  address: () => "/admin_api/panel/agent-map",
  fingerprint: root.dataset.fingerprint,
  gather() {
    const given = rows().filter(({ alias, file }) => alias || file);
    if (given.some(({ alias, file }) => !alias || !file)) throw new Error(root.dataset.nameless);
    const twice = given.map(({ alias }) => alias).filter((alias, place, all) => all.indexOf(alias) !== place);
    if (twice.length) throw new Error(root.dataset.repeated + twice[0]);
    return { rows: given.map(({ alias, file }) => ({ alias, file })) };
  },
});

list.replaceChildren();
for (const one of listed) add(one);
told();
root.addEventListener("input", told);
root.querySelector("[data-add]").addEventListener("click", () => {
  add({ alias: "", file: "" }).querySelector("[data-alias]").focus();
  record.touch();
});
list.addEventListener("click", (event) => {
  const button = event.target.closest("[data-remove]");
  if (!button) return;
  const row = button.closest("[data-row]");
  const next = row.nextElementSibling ?? row.previousElementSibling;
  row.remove();
  (next?.querySelector("[data-remove]") ?? root.querySelector("[data-add]")).focus();
  record.touch();
  told();
});
movable(list, () => record.touch());
