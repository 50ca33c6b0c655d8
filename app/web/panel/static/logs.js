// The log: choices count at once, new lines come by themselves.
const view = document.querySelector("[data-log]");
const form = document.querySelector("[data-log-filter]");
const state = document.querySelector("[data-log-state]");
const button = document.querySelector("[data-log-pause]");
const MAX_ENTRIES = 2000;

for (const choice of form?.querySelectorAll("select") ?? []) choice.addEventListener("change", () => form.requestSubmit());

let stream;
let place = "";
let paused = false;

function mark(name) {
  if (!state) return;
  state.dataset.state = name;
  state.textContent = state.dataset[`text${name[0].toUpperCase()}${name.slice(1)}`] ?? "";
}

const atEnd = () => view.scrollHeight - view.scrollTop - view.clientHeight < 40;

function part(name, words) {
  const span = document.createElement("span");
  span.className = name;
  span.textContent = words;
  return span;
}

function add({ time, level, source, text }) {
  const entry = document.createElement("div");
  entry.className = "entry";
  entry.dataset.level = level;
  entry.append(part("time", time), " ", part("level", level), " ", part("source", source), " ", part("text", text));
  view.append(entry);
}

function open() {
  const address = new URL(view.dataset.stream, location.href);
  if (place) address.searchParams.set("from", place);
  stream = new EventSource(address);
  stream.addEventListener("open", () => mark("live"));
  stream.addEventListener("error", () => {
    mark("lost");
    if (stream?.readyState === EventSource.CLOSED && !paused) {
      close();
      setTimeout(() => !stream && !paused && !document.hidden && open(), 5000);
    }
  });
  stream.addEventListener("place", (event) => { place = event.lastEventId; });
  stream.addEventListener("entries", (event) => {
    place = event.lastEventId;
    const news = JSON.parse(event.data);
    const follow = atEnd();
    view.querySelector("[data-log-empty]")?.remove();
    if (news.skipped) add({ time: "", level: "", source: "", text: `… ${state.dataset.textSkipped}` });
    for (const entry of news.entries) add(entry);
    while (view.children.length > MAX_ENTRIES) view.firstElementChild.remove();
    if (follow) view.scrollTop = view.scrollHeight;
  });
}

function close() {
  stream?.close();
  stream = undefined;
}

if (view) view.scrollTop = view.scrollHeight;
if (view?.dataset.stream) {
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    if (paused) {
      close();
      mark("paused");
    } else open();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!paused && !stream) open();
  });
  addEventListener("pagehide", close);
  open();
}
