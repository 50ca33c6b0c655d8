// The playground: two columns, one composer; streams of the real chat route, with calls told beside the text.
import { api, copyByHand, notice } from "./panel.js";

const { texts, markers } = JSON.parse(document.getElementById("play-data").textContent);
const BASE = "/AdminPanel/playground";
const element = (tag, name = "", words = "") => {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (words) made.textContent = words;
  return made;
};
const seconds = (value) => (value < 1 ? `${Math.round(1000 * value)} ms` : `${value.toFixed(1)} s`);

// A tool's card: what is known of the call so far.
class Card {
  constructor(id, tool) {
    this.root = element("details", "call");
    const summary = element("summary");
    summary.append(element("span", "mono", tool));
    this.badge = element("span", "badge", texts.found);
    this.time = element("span", "muted");
    summary.append(this.badge, this.time);
    this.inside = element("div", "inside");
    this.root.append(summary, this.inside);
    this.root.dataset.call = id;
  }

  state(kind, words, time = "") {
    this.badge.dataset.kind = kind;
    this.badge.textContent = words;
    this.time.textContent = time;
  }

  finished(news) {
    const kind = { success: "ok", error: "bad", cancelled: "warn" }[news.outcome] ?? "info";
    const times = [seconds(news.ran)];
    if (news.waited > 0.05) times.push(`${texts.waited} ${seconds(news.waited)}`);
    this.state(kind, texts[news.outcome] ?? news.outcome, times.join(" · "));
    for (const [title, text] of [[texts.arguments, news.arguments], [texts.result, news.result]]) {
      if (text && text !== "{}") this.inside.append(element("p", "muted title", title), element("pre", "", text));
    }
  }
}

// The answer of a turn as it comes: text, reasoning, and calls where they stand in the text.
class Answer {
  constructor(place, title) {
    this.root = element("article", "turn assistant");
    this.root.append(element("h2", "", title));
    place.append(this.root);
    this.text = "";
    this.thinking = null;
    this.cards = new Map();
    this.block();
  }

  block() {
    this.words = element("div", "words plain");
    this.shown = "";
    this.root.append(this.words);
  }

  add(text) {
    this.text += text;
    this.shown += text;
    this.words.textContent = visible(this.shown);
  }

  think(text) {
    if (!this.thinking) {
      const details = element("details", "");
      this.thinking = element("div", "thinking");
      details.append(element("summary", "muted", texts.thinking), this.thinking);
      this.root.insertBefore(details, this.words);
    }
    this.thinking.textContent += text;
  }

  card(news) {
    let card = this.cards.get(news.id);
    if (!card) {
      card = new Card(news.id, news.tool);
      this.cards.set(news.id, card);
      this.root.append(card.root);
      this.block();
    }
    return card;
  }

  hear(news) {
    if (news.type === "found") {
      const card = this.card(news);
      if (news.skipped) card.state("warn", texts.skipped, news.skipped);
    } else if (news.type === "started") this.card(news).state("info", texts.running, news.where);
    else if (news.type === "finished") this.card(news).finished(news);
  }

  // The server turns Markdown into HTML and cleans it; nothing a model wrote comes into the page by another way.
  async settle() {
    const blocks = [...this.root.querySelectorAll(".words.plain")].filter((one) => one.textContent.trim());
    const found = await api(`${BASE}/markdown`, { method: "POST", body: { texts: blocks.map((one) => one.textContent).slice(0, 50) } }).catch(() => null);
    blocks.slice(0, 50).forEach((one, place) => {
      if (!found) return;
      one.classList.remove("plain");
      one.replaceChildren(...new DOMParser().parseFromString(found.html[place], "text/html").body.childNodes);
    });
  }
}

// Tool requests are shown as cards, so their text is left out; one that has begun is, too.
function visible(text) {
  let shown = "";
  let rest = text;
  for (;;) {
    const start = rest.indexOf(markers.start);
    if (start < 0) return shown + withoutBeginning(rest);
    shown += rest.slice(0, start);
    const end = rest.indexOf(markers.end, start);
    if (end < 0) return shown;
    rest = rest.slice(end + markers.end.length);
  }
}
function withoutBeginning(text) {
  for (let length = Math.min(markers.start.length - 1, text.length); length > 2; length -= 1) {
    if (text.endsWith(markers.start.slice(0, length))) return text.slice(0, -length);
  }
  return text;
}

class Column {
  constructor(root) {
    this.root = root;
    this.side = root.dataset.side;
    this.transcript = root.querySelector(".transcript");
    this.state = root.querySelector(".state");
    this.messages = [];
    root.addEventListener("click", (event) => {
      const action = event.target.closest("[data-action]")?.dataset.action;
      if (action === "stop") this.abort?.abort();
      if (action === "curl") this.copy();
      if (action === "again") this.again();
    });
    for (const field of root.querySelectorAll("input, select, textarea")) {
      const kept = sessionStorage.getItem(`play-${field.id}`);
      if (kept !== null && !field.value) field.value = kept;
      field.addEventListener("change", () => sessionStorage.setItem(`play-${field.id}`, field.value));
    }
  }

  field(name) {
    return document.getElementById(`${name}-${this.side}`);
  }

  body(stream = true) {
    const agent = this.field("agent").value;
    const system = [agent && `{{${agent}}}`, this.field("system").value].filter(Boolean).join("\n\n");
    const body = { model: this.field("model").value.trim(), messages: [...(system ? [{ role: "system", content: system }] : []), ...this.messages], stream };
    const temperature = parseFloat(this.field("temperature").value);
    const most = parseInt(this.field("max").value, 10);
    if (Number.isFinite(temperature)) body.temperature = temperature;
    if (Number.isFinite(most)) body.max_tokens = most;
    return body;
  }

  async copy() {
    const quoted = JSON.stringify(this.body(), null, 2).replaceAll("'", "'\\''");
    const command = `curl -N ${location.origin}/v1/chat/completions \\\n  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\\n  -d '${quoted}'`;
    if (navigator.clipboard) await navigator.clipboard.writeText(command).catch(() => copyByHand(command));
    else copyByHand(command);
    notice(texts.copied);
  }

  show(words) {
    this.transcript.querySelector(".hint")?.remove();
    const turn = element("article", "turn user");
    turn.append(element("h2", "", texts.you), element("div", "words", words));
    this.transcript.append(turn);
    this.follow(true);
  }

  follow(always = false) {
    const { scrollTop, scrollHeight, clientHeight } = this.transcript;
    if (always || scrollHeight - scrollTop - clientHeight < 120) this.transcript.scrollTop = scrollHeight;
  }

  send(words) {
    if (!this.field("model").value.trim()) {
      notice(texts.needModel, "warn");
      this.field("model").focus();
      return false;
    }
    this.messages.push({ role: "user", content: words });
    this.show(words);
    this.answer();
    return true;
  }

  again() {
    if (this.abort || !this.messages.length) return;
    if (this.messages.at(-1).role === "assistant") {
      this.messages.pop();
      this.transcript.querySelector(".turn.assistant:last-of-type")?.remove();
    }
    this.answer();
  }

  busy(on) {
    this.root.querySelector('[data-action="stop"]').hidden = !on;
    this.root.querySelector('[data-action="again"]').hidden = on || !this.messages.length;
  }

  async answer() {
    this.abort = new AbortController();
    this.busy(true);
    this.state.textContent = texts.waiting;
    const began = performance.now();
    const title = [this.field("agent").value, this.field("model").value].filter(Boolean).join(" · ");
    const answer = new Answer(this.transcript, title);
    let first = null;
    let tokens = 0;
    let problem = "";
    let whole = false;
    try {
      const reply = await fetch(`${BASE}/chat`, { method: "POST", signal: this.abort.signal, headers: { "Content-Type": "application/json" }, body: JSON.stringify(this.body()) });
      if (!reply.ok || !reply.headers.get("content-type")?.startsWith("text/event-stream")) {
        const found = await reply.json().catch(() => ({}));
        throw new Error(found.error?.message ?? found.error ?? `${reply.status} ${reply.statusText}`);
      }
      for await (const [kind, data] of events(reply.body)) {
        if (data === "[DONE]") {
          whole = true;
          continue;
        }
        const found = JSON.parse(data);
        if (kind === "vcp") {
          if (found.type === "round") tokens += found.usage?.total_tokens ?? 0;
          else answer.hear(found);
        } else {
          if (found.error) problem = found.error.message ?? String(found.error);
          for (const choice of found.choices ?? []) {
            if (choice.index) continue;
            const { content, reasoning_content: reasoning } = choice.delta ?? {};
            if (reasoning) answer.think(reasoning);
            if (content) answer.add(content);
            if ((content || reasoning) && first === null) {
              first = (performance.now() - began) / 1000;
              this.state.textContent = texts.writing;
            }
          }
        }
        this.follow();
      }
      if (!whole && !problem) problem = texts.truncated;
    } catch (fault) {
      problem = fault.name === "AbortError" ? texts.stopped : fault.message;
    }
    this.abort = null;
    if (answer.text) this.messages.push({ role: "assistant", content: answer.text });
    await answer.settle();
    if (problem) {
      const box = element("p", "message", problem);
      box.dataset.kind = problem === texts.stopped ? "warn" : "bad";
      answer.root.append(box);
    }
    const parts = [seconds((performance.now() - began) / 1000)];
    if (first !== null) parts.push(`${texts.firstToken} ${seconds(first)}`);
    if (tokens) parts.push(`${tokens} ${texts.tokens}`);
    this.state.textContent = parts.join(" · ");
    this.busy(false);
    this.follow();
  }

  clear() {
    this.abort?.abort();
    this.messages = [];
    this.transcript.replaceChildren();
    this.state.textContent = "";
    this.busy(false);
  }
}

// Server-sent events of a response: pairs of event name and data.
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let kept = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      kept += value;
      const pieces = kept.split(/\r?\n\r?\n/);
      kept = pieces.pop();
      for (const piece of pieces) {
        let kind = "message";
        const data = [];
        for (const line of piece.split(/\r?\n/)) {
          if (line.startsWith("event:")) kind = line.slice(6).trim();
          if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
        }
        if (data.length) yield [kind, data.join("\n")];
      }
    }
  } finally {
    reader.releaseLock();
  }
}

const place = document.getElementById("columns");
const columns = [...place.querySelectorAll(".column")].map((root) => new Column(root));
const open = () => columns.filter((column) => !column.root.hidden);
const beside = document.getElementById("beside");
const message = document.getElementById("message");

beside.addEventListener("click", () => {
  const two = place.toggleAttribute("data-one") === false;
  columns[1].root.hidden = !two;
  beside.setAttribute("aria-pressed", String(two));
  if (two && !columns[1].field("model").value) columns[1].field("model").value = columns[0].field("model").value;
});
document.getElementById("clear").addEventListener("click", () => columns.forEach((column) => column.clear()));
document.getElementById("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  const words = message.value;
  if (!words.trim() || open().some((column) => column.abort)) return;
  const sent = open().map((column) => column.send(words));
  if (sent.some(Boolean)) message.value = "";
});
message.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
});

const answer = await fetch(`${BASE}/models`).then((reply) => reply.json()).catch(() => ({ models: [] }));
document.getElementById("models").replaceChildren(...answer.models.map((name) => Object.assign(document.createElement("option"), { value: name })));
if (answer.error) {
  const box = document.getElementById("models-error");
  box.textContent = answer.error;
  box.hidden = false;
}
for (const column of columns) {
  const field = column.field("model");
  if (!field.value && answer.models.length) field.value = answer.models.find((name) => !/embed|rerank/i.test(name)) ?? answer.models[0];
}
