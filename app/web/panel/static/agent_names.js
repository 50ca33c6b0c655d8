// Names of agents: rows of a table, saved together.
import { Record, made, movable } from "./records.js";

const root = document.getElementById("agent-names");
const list = root.querySelector("[data-rows]");
const files = new Set([...document.querySelectorAll("#agent-files option")].map((option) => option.value));

const rows = () => [...list.children].map((row) => ({ row, alias: row.querySelector("[data-alias]").value.trim(), file: row.querySelector("[data-file]").value.trim() }));

function told() {
  const count = new Map();
  for (const { alias } of rows()) count.set(alias, (count.get(alias) ?? 0) + 1);
  for (const { row, alias, file } of rows()) {
    const place = row.querySelector("[data-told]");
    const fault = alias && count.get(alias) > 1 ? root.dataset.twice : file && !files.has(file.replaceAll("\\", "/")) ? root.dataset.missing : "";
    if (!fault && place.querySelector("a") && file === row.dataset.kept) continue;
    const badge = document.createElement("span");
    badge.className = "badge";
    badge.dataset.kind = "bad";
    badge.textContent = fault;
    place.replaceChildren(...(fault ? [badge] : []));
    row.querySelector("[data-alias]").toggleAttribute("aria-invalid", fault === root.dataset.twice);
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

for (const { row, file } of rows()) row.dataset.kept = file;
root.addEventListener("input", told);
root.querySelector("[data-add]").addEventListener("click", () => {
  const row = made("name-row");
  list.append(row);
  row.querySelector("[data-alias]").focus();
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
