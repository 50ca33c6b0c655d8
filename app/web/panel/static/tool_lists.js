// The editor of tool lists: tools by plugin, chosen and described; the text is made by the server.
import { api, ask, notice } from "./panel.js";
import { Record, exchange, labelled, made } from "./records.js";

const root = document.getElementById("tool-lists");
const words = root.dataset;
const name = document.getElementById("list-name");
const place = root.querySelector("[data-tools]");
const shown = root.querySelector("[data-text]");
const base = "/admin_api/tool-list-editor";
const entries = [];
let opened = words.chosen;

const record = new Record(root, {
  address: () => `${base}/config/${encodeURIComponent(name.value.trim())}`,
  gather() {
    if (!name.value.trim()) throw new Error(words.named);
    return choice();
  },
  saved: () => {
    opened = name.value.trim();
  },
});

function choice() {
  const toolDescriptions = {};
  for (const entry of entries) if (entry.words.value.trim()) toolDescriptions[entry.key] = entry.words.value;
  return { selectedTools: entries.filter((entry) => entry.box.checked).map((entry) => entry.key), toolDescriptions };
}

const options = () => ({ includeHeader: document.getElementById("with-header").checked, includeExamples: document.getElementById("with-examples").checked });

let timer;
function preview() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    try {
      shown.textContent = (await api("/admin_api/panel/tool-list-preview", { method: "POST", body: { ...choice(), ...options() } })).text;
    } catch (fault) {
      notice(fault.message, "bad");
    }
  }, 250);
}

function count() {
  const chosen = entries.filter((entry) => entry.box.checked).length;
  root.querySelector("[data-chosen-count]").textContent = words.count.replace("%1", chosen).replace("%2", entries.length);
  for (const group of place.querySelectorAll(".tool-group")) {
    const boxes = [...group.querySelectorAll('[data-name="chosen"]')];
    group.querySelector("[data-count]").textContent = `${boxes.filter((box) => box.checked).length} / ${boxes.length}`;
  }
}

function build(tools) {
  const names = new Map();
  for (const tool of tools) names.set(tool.name, (names.get(tool.name) ?? 0) + 1);
  const groups = new Map();
  for (const tool of tools) {
    if (!groups.has(tool.pluginName)) {
      const group = made("tool-group");
      group.querySelector("[data-display]").textContent = tool.displayName;
      group.querySelector("[data-plugin]").textContent = tool.pluginName === tool.displayName ? "" : tool.pluginName;
      groups.set(tool.pluginName, group);
    }
    const row = labelled(made("tool-row"));
    row.querySelector("[data-command]").textContent = tool.name;
    row.querySelector("[data-description]").textContent = tool.description;
    const entry = {
      tool,
      row,
      key: names.get(tool.name) === 1 ? tool.name : `${tool.pluginName}::${tool.name}`,
      box: row.querySelector('[data-name="chosen"]'),
      words: row.querySelector('[data-name="words"]'),
    };
    entry.words.placeholder = tool.description.slice(0, 300);
    entry.words.setAttribute("aria-label", `${tool.name}: ${words.own}`);
    entries.push(entry);
    groups.get(tool.pluginName).querySelector("[data-commands]").append(row);
  }
  const empty = document.createElement("p");
  empty.className = "muted";
  empty.textContent = words.none;
  place.replaceChildren(...(groups.size ? groups.values() : [empty]));
}

function fill(stored) {
  const selected = new Set(stored.selectedTools ?? []);
  const described = stored.toolDescriptions ?? {};
  for (const entry of entries) {
    const names = [`${entry.tool.pluginName}::${entry.tool.name}`, entry.tool.name, entry.tool.pluginName];
    entry.box.checked = names.some((name) => selected.has(name));
    entry.words.value = described[names.find((name) => name in described)] ?? "";
    entry.words.closest("details").open = Boolean(entry.words.value);
  }
  for (const group of place.querySelectorAll(".tool-group")) group.open = Boolean(group.querySelector('[data-name="chosen"]:checked'));
  count();
  preview();
}

async function open(wanted) {
  try {
    const { found, fingerprint } = await exchange(`${base}/config/${encodeURIComponent(wanted)}`);
    record.fingerprint = fingerprint;
    opened = wanted;
    fill(found);
    record.clean();
  } catch (fault) {
    notice(fault.message, "bad");
  }
}

root.addEventListener("change", (event) => {
  if (event.target.id === "list-name") record.fingerprint = name.value.trim() === opened ? record.fingerprint : "";
  count();
  preview();
});
place.addEventListener("input", preview);
document.getElementById("tool-filter").addEventListener("input", (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const { row, tool } of entries) row.hidden = !`${tool.name} ${tool.pluginName} ${tool.displayName} ${tool.description}`.toLowerCase().includes(wanted);
  for (const group of place.querySelectorAll(".tool-group")) {
    group.hidden = !group.querySelector(".tool-row:not([hidden])");
    if (wanted) group.open = !group.hidden;
  }
});
for (const [mark, on] of [["[data-all]", true], ["[data-nothing]", false]]) {
  root.querySelector(mark).addEventListener("click", () => {
    for (const entry of entries) if (!entry.row.hidden) entry.box.checked = on;
    record.touch();
    count();
    preview();
  });
}
root.querySelector("[data-open]").addEventListener("click", async () => {
  const wanted = name.value.trim();
  if (!wanted) return notice(words.named, "bad");
  if (record.dirty && !(await ask(words.leave))) return;
  open(wanted);
});
root.querySelector("[data-delete]").addEventListener("click", async () => {
  const wanted = name.value.trim();
  if (!wanted) return notice(words.named, "bad");
  if (!(await ask(words.remove))) return;
  try {
    await exchange(`${base}/config/${encodeURIComponent(wanted)}`, { method: "DELETE" });
    record.clean();
    location.assign(location.pathname);
  } catch (fault) {
    notice(fault.message, "bad");
  }
});
root.querySelector("[data-export]").addEventListener("click", async () => {
  const file = document.getElementById("file-name").value.trim().replace(/\.txt$/i, "");
  if (!file) return notice(words.named, "bad");
  const address = encodeURIComponent(file);
  try {
    const { found, fingerprint } = await exchange(`${base}/check-file/${address}`);
    if (found.exists && !(await ask(words.replace))) return;
    const done = await exchange(`${base}/export/${address}`, { method: "POST", body: { ...choice(), ...options() }, expected: fingerprint });
    notice(words.exported + done.found.filePath, "ok", `/AdminPanel/variables?file=${encodeURIComponent(`${file}.txt`)}`);
  } catch (fault) {
    notice(fault.message, "bad");
  }
});

try {
  build((await api(`${base}/tools`)).tools);
  if (opened) await open(opened);
  else fill({});
} catch (fault) {
  place.textContent = fault.message;
}
