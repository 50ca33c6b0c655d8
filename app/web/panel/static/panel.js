// What every page does: menu, notices, confirmations, shown secrets, copying, news.
const body = document.body;
const text = (name) => body.dataset[`text${name}`] ?? "";

export function notice(message, kind = "ok", address = "") {
  const place = document.getElementById("notices");
  if (!place) return;
  const box = document.createElement("div");
  box.className = "notice";
  box.dataset.kind = kind;
  if (kind === "bad") box.setAttribute("role", "alert");
  const words = document.createElement(address ? "a" : "span");
  if (address) words.href = address;
  words.textContent = message;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "button quiet";
  close.dataset.dismiss = "";
  close.setAttribute("aria-label", text("Close"));
  close.textContent = "×";
  box.append(words, close);
  place.append(box);
  settle(box);
}

function settle(box) {
  const place = document.getElementById("notices");
  while (place.children.length > 5) place.firstElementChild.remove();
  if (box.dataset.kind !== "bad") setTimeout(() => box.remove(), 6000);
}

// A question in a dialog of the page; resolves to true when it is confirmed.
export function ask(question) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("#confirm-text").textContent = question;
  dialog.showModal();
  return new Promise((resolve) => {
    const answer = (event) => {
      const button = event.target.closest("button");
      if (event.type === "click" && !button) return;
      dialog.removeEventListener("click", answer);
      dialog.removeEventListener("cancel", answer);
      dialog.close();
      resolve(event.type === "click" && button.value === "confirm");
    };
    dialog.addEventListener("click", answer);
    dialog.addEventListener("cancel", answer);
  });
}

// JSON to and from the server; throws an Error with the server's own words, and `status` and `body`.
export async function api(address, { method = "GET", body: sent, signal } = {}) {
  const headers = { Accept: "application/json" };
  if (sent !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address, { method, headers, signal, body: sent === undefined ? undefined : JSON.stringify(sent) });
  } catch (fault) {
    if (fault.name === "AbortError") throw fault;
    throw Object.assign(new Error(text("Lost")), { status: 0, body: {} });
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(found.error ?? found.message ?? answer.statusText), { status: answer.status, body: found });
  return found;
}

document.addEventListener("click", async (event) => {
  const dismissed = event.target.closest("[data-dismiss]");
  if (dismissed) return dismissed.closest(".notice")?.remove();
  const reveal = event.target.closest("[data-reveal]");
  if (reveal) {
    const field = document.getElementById(reveal.dataset.reveal);
    const shown = field.type === "text";
    field.type = shown ? "password" : "text";
    return reveal.setAttribute("aria-pressed", String(!shown));
  }
  const menu = event.target.closest("[data-menu]");
  if (menu) {
    const open = document.getElementById("navigation").classList.toggle("open");
    return menu.setAttribute("aria-expanded", String(open));
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    const source = document.getElementById(copy.dataset.copy);
    const words = source.value ?? source.textContent;
    await navigator.clipboard?.writeText(words).catch(() => copyByHand(words)) ?? copyByHand(words);
    return notice(text("Copied"));
  }
  for (const details of document.querySelectorAll("details.menu[open]")) {
    if (!details.contains(event.target)) details.open = false;
  }
  if (!event.target.closest(".search")) document.getElementById("search-hits")?.replaceChildren();
});

// Without TLS a page that is not on this machine has no clipboard.
export function copyByHand(words) {
  const field = document.createElement("textarea");
  field.value = words;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const details of document.querySelectorAll("details.menu[open]")) {
      details.open = false;
      details.querySelector("summary").focus();
    }
    document.getElementById("search-hits")?.replaceChildren();
  }
  if (event.key === "/" && !event.target.closest("input, textarea, select, [contenteditable]")) {
    event.preventDefault();
    document.getElementById("search-field")?.focus();
  }
});

// data-confirm: on forms and buttons, with htmx and without.
document.addEventListener("htmx:confirm", (event) => {
  const question = event.detail.elt.closest("[data-confirm]")?.dataset.confirm;
  if (!question) return;
  event.preventDefault();
  ask(question).then((yes) => yes && event.detail.issueRequest(true));
});
document.addEventListener("submit", (event) => {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!question || form.dataset.confirmed || form.matches("[hx-post],[hx-delete],[hx-put],[hx-patch],[hx-get]")) return;
  event.preventDefault();
  ask(question).then((yes) => {
    if (!yes) return;
    form.dataset.confirmed = "1";
    form.requestSubmit(event.submitter);
    delete form.dataset.confirmed;
  });
});

document.addEventListener("htmx:sendError", () => notice(text("Lost"), "bad"));
document.addEventListener("htmx:responseError", (event) => {
  if (!event.detail.xhr.getResponseHeader("HX-Retarget") && event.detail.xhr.status !== 401) {
    notice(`${event.detail.xhr.status} ${event.detail.xhr.statusText}`, "bad");
  }
});
document.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target?.id === "notices") settle(event.detail.target.lastElementChild);
});
// An answer that is an error and brings no place of its own must not replace what the person sees.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr } = event.detail;
  if (xhr.status >= 400 && !xhr.getResponseHeader("HX-Retarget") && !xhr.getResponseHeader("HX-Reswap")) event.detail.shouldSwap = false;
});

// data-unsaved: a form whose text somebody has typed is not left without a question.
document.addEventListener("input", (event) => {
  const form = event.target.closest("form[data-unsaved]");
  if (form) form.dataset.unsaved = "typed";
});
document.addEventListener("submit", (event) => {
  if (!event.defaultPrevented && event.target.dataset.unsaved) event.target.dataset.unsaved = "sent";
});
addEventListener("beforeunload", (event) => {
  if (document.querySelector('form[data-unsaved="typed"]')) event.preventDefault();
});

// Polling costs nothing while nobody looks.
document.addEventListener("htmx:configRequest", (event) => {
  const { elt } = event.detail;
  if (!/(^|,)\s*every /.test(elt.getAttribute("hx-trigger") ?? "")) return;
  // What somebody is about to press or is asked about must not be replaced under the hand.
  const held = document.querySelector("dialog[open]") || elt.querySelector(":is(button, a, input, select, textarea):focus");
  if (held || (document.hidden && elt.dataset.asked)) event.preventDefault();
  elt.dataset.asked = "1";
});

// News: one stream for each visible page.
let stream;
function listen() {
  if (!body.dataset.news || stream || document.hidden) return;
  stream = new EventSource(body.dataset.news);
  stream.addEventListener("news", (event) => {
    const news = JSON.parse(event.data);
    notice(news.text, news.kind, news.address ? `/AdminPanel/${news.address}` : "");
    body.dispatchEvent(new CustomEvent("news", { detail: news }));
    body.dispatchEvent(new CustomEvent(`news:${news.topic}`, { detail: news }));
  });
}
function stopListening() {
  stream?.close();
  stream = undefined;
}
document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
addEventListener("pagehide", stopListening);
addEventListener("pageshow", listen);
listen();

// The navigation may be longer than the window: the entry of this page is in sight.
const here = document.querySelector(".navigation [aria-current]");
if (here) {
  const list = here.closest(".navigation");
  list.scrollTop = Math.max(0, here.offsetTop - list.clientHeight / 2);
}
