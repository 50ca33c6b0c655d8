// The form of config.env: one group at a time, a filter, and only what was changed is sent.
import { ask } from "./panel.js";

const form = document.getElementById("config-form");
const filter = document.getElementById("config-filter");
const written = document.getElementById("config-written");
const sections = [...form.querySelectorAll("[data-section]")];
const links = [...form.querySelectorAll("[data-group]")];
const settings = [...form.querySelectorAll("[data-setting]")];
const count = document.getElementById("config-count");
const discard = form.querySelector("[data-config-discard]");
let group = links[0]?.dataset.group;
let leaving = false;

filter.hidden = false;
written.closest("label").hidden = false;

const fields = () => [...form.querySelectorAll("input[name], select[name], textarea[name]")].filter((field) => field.name !== "expected");

// What differs from the page as it came, and what came back unsaved.
function touched(field) {
  if (field.closest("[data-setting]")?.hasAttribute("data-changed")) return true;
  if (field.type === "checkbox") return field.checked;
  if (field.tagName === "SELECT") return [...field.options].some((option) => option.selected !== option.defaultSelected) && field.value !== initial.get(field);
  return field.value !== field.defaultValue || (field.name.startsWith("a.") && field.value !== "");
}
const initial = new Map(fields().map((field) => [field, field.value]));

function counted() {
  const names = new Set(fields().filter(touched).map((field) => field.name.startsWith("a.") ? field.name.split(".")[1] : field.name.slice(2)));
  count.textContent = names.size ? `${names.size} ${count.dataset.textSome}` : count.dataset.textNone;
  discard.hidden = !names.size;
  return names.size;
}

function shown() {
  const words = filter.value.trim().toLowerCase();
  const searching = words !== "" || written.checked;
  let any = false;
  for (const section of sections) {
    let visible = 0;
    for (const setting of section.querySelectorAll("[data-setting]")) {
      const about = `${setting.dataset.setting} ${setting.closest(".config-block").querySelector(".config-help")?.textContent ?? ""}`.toLowerCase();
      const fits = about.includes(words) && (!written.checked || setting.hasAttribute("data-written"));
      setting.hidden = searching && !fits;
      visible += fits;
    }
    for (const block of section.querySelectorAll(".config-block")) {
      block.hidden = searching && !block.querySelector("[data-setting]:not([hidden])");
    }
    section.querySelector(".config-add")?.toggleAttribute("hidden", searching);
    section.hidden = searching ? !visible : section.dataset.section !== group;
    any ||= !section.hidden;
  }
  for (const link of links) {
    if (searching || link.dataset.group !== group) link.removeAttribute("aria-current");
    else if (!link.hasAttribute("aria-current")) {
      link.setAttribute("aria-current", "true");
      const list = link.closest("ul"); // a row that scrolls on narrow screens
      list.scrollLeft = link.offsetLeft - list.offsetLeft - 20;
    }
  }
  document.getElementById("config-none").hidden = any;
}

function follow() {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id ? document.getElementById(id) : null;
  const section = target?.closest("[data-section]");
  if (!section || !form.contains(target)) return;
  group = section.dataset.section;
  filter.value = "";
  written.checked = false;
  shown();
  if (id.startsWith("k-")) {
    target.scrollIntoView({ block: "center" });
    target.focus({ preventScroll: true });
  } else scrollTo(0, 0);
}

filter.addEventListener("input", shown);
filter.addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
written.addEventListener("change", shown);
addEventListener("hashchange", follow);
for (const link of links) link.addEventListener("click", (event) => {
  event.preventDefault();
  history.replaceState(null, "", link.hash);
  follow();
});
form.addEventListener("input", counted);
form.addEventListener("submit", () => {
  leaving = true;
  const unchanged = fields().filter((field) => !touched(field));
  for (const field of unchanged) field.disabled = true;
  setTimeout(() => unchanged.forEach((field) => (field.disabled = false)));
});
discard.addEventListener("click", async (event) => {
  event.preventDefault();
  if (await ask(`${form.dataset.textUnsaved} — ${discard.textContent.trim()}?`)) {
    leaving = true;
    location.href = discard.href;
  }
});
addEventListener("beforeunload", (event) => {
  if (!leaving && counted()) event.preventDefault();
});
addEventListener("pageshow", () => {
  leaving = false;
  counted();
});

const wrong = form.querySelector('[aria-invalid="true"]') ?? form.querySelector("details[open] .field-error");
if (wrong) group = wrong.closest("[data-section]").dataset.section;
else if (settings.some((setting) => setting.hasAttribute("data-changed"))) group = settings.find((setting) => setting.hasAttribute("data-changed")).closest("[data-section]").dataset.section;
shown();
follow();
counted();
wrong?.scrollIntoView({ block: "center" });
wrong?.focus?.({ preventScroll: true });
