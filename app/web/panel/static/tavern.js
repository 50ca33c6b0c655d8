// Presets of VCPTavern: rules as cards with the fields of their way, dragged into order, tried on a sample.
import { ask, notice } from "./panel.js";
import { Record, exchange, labelled, made, movable } from "./records.js";

const base = "/admin_api/vcptavern";
const root = document.getElementById("tavern");
const words = root.dataset;
const preset = words.preset;
const form = document.getElementById("tavern-form");
const sample = [
  { role: "system", content: "System" },
  { role: "user", content: "User 1" },
  { role: "assistant", content: "Assistant 1" },
  { role: "user", content: "User 2" },
];

// Import: the file becomes a preset of its own name.
const picker = root.querySelector("[data-file]");
root.querySelector("[data-import]").addEventListener("click", () => picker.click());
picker.addEventListener("change", async () => {
  const [file] = picker.files;
  picker.value = "";
  if (!file) return;
  const name = file.name.replace(/\.json$/i, "").replace(/[^A-Za-z0-9_-]/g, "").slice(0, 100);
  if (!name) return notice(words.nameless, "bad");
  let value;
  try {
    value = JSON.parse(await file.text());
    if (!Array.isArray(value?.rules)) throw new Error();
  } catch {
    return notice(words.bad, "bad");
  }
  try {
    await exchange(`${base}/presets/${name}`, { method: "POST", body: value, expected: "" });
    location.assign(`${location.pathname}?preset=${name}`);
  } catch (fault) {
    notice(fault.status === 409 ? words.exists : fault.message, "bad");
  }
});

if (form) edit();

async function edit() {
  const list = form.querySelector("[data-rules]");
  const [order, allowed, about] = ["order", "allowed", "about"].map((id) => document.getElementById(id));
  const kept = new WeakMap(); // what a rule has beside our fields stays in it
  let whole = {};

  const field = (card, name) => card.querySelector(`[data-name="${name}"]`);

  function shape(card) {
    const way = field(card, "type").value;
    for (const place of card.querySelectorAll("[data-when]")) place.hidden = !place.dataset.when.split(" ").includes(way);
    card.classList.toggle("off", !field(card, "enabled").checked);
    const text = field(card, "content").value.trim().split("\n")[0].slice(0, 60);
    card.querySelector("[data-title]").textContent = field(card, "name").value.trim() || text || words.unnamed;
  }

  function add(rule) {
    const card = labelled(made("rule-card"));
    const content = typeof rule.content === "object" && rule.content ? rule.content : { role: "system", content: rule.content ?? "" };
    const set = (name, value) => {
      const control = field(card, name);
      if (control.tagName === "SELECT" && ![...control.options].some((option) => option.value === value)) control.append(new Option(value, value));
      control.value = value;
    };
    field(card, "enabled").checked = Boolean(rule.enabled);
    set("name", rule.name ?? "");
    set("type", String(rule.type ?? "relative"));
    set("position", String(rule.position ?? "after"));
    set("target", String(rule.target ?? "system"));
    set("depth", String(rule.depth ?? 1));
    set("role", String(content.role ?? "system"));
    const parts = Array.isArray(content.content);
    set("content", parts ? JSON.stringify(content.content, null, 2) : String(content.content ?? ""));
    card.dataset.parts = parts ? "yes" : "";
    kept.set(card, rule);
    list.append(card);
    shape(card);
    return card;
  }

  function rule(card) {
    const value = (name) => field(card, name).value;
    const { name: _name, position: _position, target: _target, depth: _depth, ...others } = kept.get(card);
    const result = { ...others, enabled: field(card, "enabled").checked, type: value("type") };
    if (value("name").trim()) result.name = value("name").trim();
    if (value("type") === "depth") result.depth = Number(value("depth")) || 1;
    else Object.assign(result, { position: value("position"), target: value("target") });
    let content = value("content");
    if (card.dataset.parts) {
      try {
        content = JSON.parse(content);
      } catch {
        content = null;
      }
      if (!Array.isArray(content)) throw new Error(words.parts);
    }
    const before = kept.get(card).content;
    result.content = value("type") === "embed" && typeof before !== "object" ? content : { ...(typeof before === "object" ? before : {}), role: value("role"), content };
    return result;
  }

  function gather() {
    const { order: _order, placeholderAllowlist: _allowed, description: _about, ...others } = whole;
    const names = allowed.value.split(/[,，]/).map((name) => name.trim()).filter(Boolean);
    return {
      ...others,
      ...(order.value ? { order: order.value } : {}),
      ...(about.value.trim() ? { description: about.value.trim() } : {}),
      ...(names.length ? { placeholderAllowlist: names } : {}),
      rules: [...list.children].map(rule),
    };
  }

  const record = new Record(form, {
    address: () => `${base}/presets/${encodeURIComponent(preset)}`,
    gather,
    saved: () => {
      whole = gather();
      root.querySelector("[data-new-badge]")?.remove();
      root.querySelector("[data-delete]").hidden = false;
      attempt();
    },
  });

  function tidy() {
    form.querySelector("[data-empty]").hidden = list.children.length > 0;
    for (const card of list.children) shape(card);
  }

  const trial = form.querySelector("[data-try]");
  let timer;
  function attempt() {
    clearTimeout(timer);
    if (!trial.open) return;
    timer = setTimeout(async () => {
      const place = form.querySelector("[data-sample]");
      try {
        const { found } = await exchange(`${base}/preview`, { method: "POST", body: { preset: gather(), messages: sample } });
        place.replaceChildren(
          ...found.messages.map((message) => {
            const box = document.createElement("div");
            box.className = `sample ${message.state === "kept" ? "" : message.state}`;
            const who = document.createElement("b");
            who.textContent = message.role;
            const text = typeof message.content === "string" ? message.content : JSON.stringify(message.content, null, 2);
            box.append(who, text);
            return box;
          }),
        );
      } catch (fault) {
        place.textContent = fault.message;
      }
    }, 300);
  }
  trial.addEventListener("toggle", attempt);
  form.querySelector("[data-try-now]").addEventListener("click", attempt);

  form.addEventListener("input", () => {
    tidy();
    attempt();
  });
  form.querySelector("[data-add]").addEventListener("click", () => {
    const card = add({ enabled: true, type: "relative", position: "before", target: "last_user", content: { role: "system", content: "" } });
    tidy();
    field(card, "content").focus();
    record.touch();
  });
  list.addEventListener("click", async (event) => {
    const card = event.target.closest("[data-remove]")?.closest("[data-row]");
    if (!card || !(await ask(words.removeRule))) return;
    card.remove();
    tidy();
    form.querySelector("[data-add]").focus();
    record.touch();
    attempt();
  });
  root.querySelector("[data-export]").addEventListener("click", () => {
    let text;
    try {
      text = JSON.stringify(gather(), null, 2);
    } catch (fault) {
      return notice(fault.message, "bad");
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = `${preset}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });
  root.querySelector("[data-delete]").addEventListener("click", async () => {
    if (!(await ask(words.remove.replace("%1", preset)))) return;
    try {
      await exchange(`${base}/presets/${encodeURIComponent(preset)}`, { method: "DELETE" });
      record.clean();
      location.assign(location.pathname);
    } catch (fault) {
      notice(fault.message, "bad");
    }
  });

  if (words.new) {
    list.replaceChildren();
    if (!/^[A-Za-z0-9_-]{1,100}$/.test(preset)) {
      form.hidden = true;
      return notice(words.nameless, "bad");
    }
  } else {
    try {
      const { found, fingerprint } = await exchange(`${base}/presets/${encodeURIComponent(preset)}`);
      whole = found && typeof found === "object" && !Array.isArray(found) ? found : {};
      record.fingerprint = fingerprint;
    } catch (fault) {
      list.textContent = fault.message;
      form.querySelector("[data-record-save]").disabled = true;
      return;
    }
    list.replaceChildren();
    order.value = whole.order === "list" ? "list" : "";
    allowed.value = Array.isArray(whole.placeholderAllowlist) ? whole.placeholderAllowlist.join(", ") : "";
    about.value = typeof whole.description === "string" ? whole.description : "";
    for (const one of Array.isArray(whole.rules) ? whole.rules : []) if (one && typeof one === "object") add(one);
  }
  tidy();
  movable(list, () => {
    record.touch();
    attempt();
  });
}
