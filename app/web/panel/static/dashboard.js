// The dashboard: charts of the numbers over time, the admin code, and the wait for a restart.
import { api, notice } from "./panel.js";
import UPlot from "./vendor/uplot.js";

const root = document.getElementById("history");
const texts = JSON.parse(document.getElementById("history-texts").textContent);
const place = root.querySelector("[data-charts]");
const state = root.querySelector("[data-charts-state]");
const table = root.querySelector("[data-history-table]");
const REFRESH = { hour: 10_000, day: 60_000, week: 300_000 };
const HEIGHT = 160;

const integer = new Intl.NumberFormat(texts.locale, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(texts.locale, { notation: "compact", maximumFractionDigits: 1 });
const counts = (value) => integer.format(value);
const whole = (value) => (Number.isInteger(value) ? short.format(value) : "");
const tenths = new Intl.NumberFormat(texts.locale, { maximumFractionDigits: 1 });
const percent = (value) => `${tenths.format(value)} %`;
const mebibytes = (value) => `${tenths.format(value / 1048576)} MiB`;
const millis = (value) => `${tenths.format(value * 1000)} ms`;
const CHARTS = [
  { title: texts.chats, series: [["turns", texts.chats, "accent"], ["failed_turns", texts.failed, "bad"]], shown: counts, axis: whole },
  { title: texts.tokens, series: [["prompt_tokens", texts.prompt, "accent"], ["completion_tokens", texts.completion, "ok"]], shown: counts, axis: whole },
  { title: texts.tools, series: [["calls", texts.calls, "accent"], ["failed_calls", texts.failed, "bad"]], shown: counts, axis: whole },
  { title: texts.machine, series: [["processor", texts.machine, "accent"]], shown: percent, axis: percent },
  { title: texts.memory, series: [["memory", texts.memory, "info"]], shown: mebibytes, axis: mebibytes, steps: Array.from({ length: 24 }, (_, power) => 1048576 * 2 ** power) },
  { title: texts.delay, series: [["delay", texts.delay, "warn"]], shown: millis, axis: millis },
];

let range = "hour";
let found;
let plots = [];
let timer;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const element = (name, className = "", words = "") => Object.assign(document.createElement(name), { className, textContent: words });

// Times stand in the zone of the server, as everywhere in the panel.
function moment(seconds, long) {
  const options = { timeZone: root.dataset.zone, hour: "2-digit", minute: "2-digit", hour12: false };
  if (long) Object.assign(options, { month: "2-digit", day: "2-digit" });
  return new Intl.DateTimeFormat(texts.locale, options).format(seconds * 1000);
}

function draw() {
  for (const plot of plots) plot.destroy();
  plots = [];
  place.replaceChildren();
  const places = CHARTS.map((chart) => {
    const figure = element("figure", "chart");
    const caption = element("figcaption");
    caption.append(element("b", "", chart.title));
    const values = chart.series.map(([, label, ink]) => {
      const key = element("span", "key");
      key.dataset.colour = ink;
      const value = element("span");
      key.append(element("i"), document.createTextNode(chart.series.length > 1 ? `${label} ` : ""), value);
      caption.append(key);
      return value;
    });
    const holder = element("div", "plot");
    holder.setAttribute("aria-hidden", "true");
    figure.append(caption, holder);
    place.append(figure);
    return [chart, holder, values];
  });
  for (const [chart, holder, values] of places) plots.push(plot(chart, holder, values)); // only now the widths are right
}

function plot(chart, holder, values) {
  const data = [found.times, ...chart.series.map(([name]) => found.series[name])];
  const ink = colour("muted");
  const grid = { stroke: colour("line"), width: 1 };
  const tell = (index) => chart.series.forEach(([name], place) => {
    const value = found.series[name][index];
    values[place].textContent = value === null || value === undefined ? "–" : chart.shown(value);
  });
  const last = found.times.length - 1;
  tell(last);
  const highest = Math.max(0, ...data.slice(1).flat().map((value) => value ?? 0));
  return new UPlot({
    width: Math.max(200, holder.clientWidth),
    height: HEIGHT,
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: { x: { time: false }, y: { range: [0, highest > 0 ? highest * 1.1 : 1] } },
    axes: [
      { stroke: ink, grid, ticks: grid, size: 28, font: "11px system-ui", space: range === "hour" ? 60 : 90, values: (_, ticks) => ticks.map((tick) => moment(tick, range === "week")) },
      { stroke: ink, grid, ticks: { show: false }, size: 62, font: "11px system-ui", space: 36, ...(chart.steps ? { incrs: chart.steps } : {}), values: (_, ticks) => ticks.map((tick) => (highest > 0 || tick === 0 ? chart.axis(tick) : "")) },
    ],
    series: [
      {},
      ...chart.series.map(([, label, name], index) => ({
        label,
        stroke: colour(name),
        width: 1.6,
        fill: index === 0 ? `color-mix(in srgb, ${colour(name)} 12%, transparent)` : undefined,
        points: { size: 4, filter: (self, place, all) => (all ? null : alone(self.data[place])) },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [(self) => tell(self.cursor.idx ?? last)] },
  }, data, holder);
}

// Where a value has none beside it: no line leads there, so it is drawn as a point.
function alone(values) {
  const there = (index) => values[index] !== null && values[index] !== undefined;
  return values.flatMap((_, index) => (there(index) && !there(index - 1) && !there(index + 1) ? [index] : []));
}

// The same as a table of a dozen rows: sums of what is counted, means of what is measured.
function tabulate() {
  const rows = Math.min(12, found.times.length);
  const step = Math.ceil(found.times.length / rows);
  const columns = CHARTS.flatMap((chart) => chart.series.map(([name, label]) => ({ name, shown: chart.shown, label: chart.series.length > 1 && label !== chart.title ? `${chart.title}: ${label}` : label })));
  const head = element("thead");
  const heads = element("tr");
  for (const [index, words] of [texts.time, ...columns.map((column) => column.label)].entries()) {
    const cell = element("th", index ? "num" : "", words);
    cell.scope = "col";
    heads.append(cell);
  }
  head.append(heads);
  const body = element("tbody");
  for (let begin = 0; begin < found.times.length; begin += step) {
    const row = element("tr");
    const time = element("th", "nowrap", moment(found.times[begin], true));
    time.scope = "row";
    row.append(time);
    for (const { name, shown } of columns) {
      const values = found.series[name].slice(begin, begin + step).filter((value) => value !== null);
      const sum = values.reduce((total, value) => total + value, 0);
      const measured = ["processor", "memory", "delay"].includes(name);
      const value = name === "delay" ? Math.max(...values) : measured ? sum / values.length : sum;
      row.append(element("td", "num", values.length ? shown(value) : "–"));
    }
    body.append(row);
  }
  table.replaceChildren(head, body);
}

async function load() {
  clearTimeout(timer);
  const wanted = range;
  try {
    const answer = await api(`${root.dataset.history}?range=${wanted}`);
    if (wanted !== range) return;
    found = answer;
    state.textContent = found.series.memory.some((value) => value !== null) ? "" : texts.none;
    state.hidden = !state.textContent;
    draw();
    tabulate();
  } catch (fault) {
    state.hidden = false;
    state.textContent = `${texts.lost}: ${fault.message}`;
  }
  timer = setTimeout(load, REFRESH[range]);
}

root.addEventListener("click", (event) => {
  const button = event.target.closest("[data-range]");
  if (!button) return;
  range = button.dataset.range;
  for (const other of root.querySelectorAll("[data-range]")) other.setAttribute("aria-pressed", String(other === button));
  load();
});
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : load()));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => found && draw());
new ResizeObserver(() => {
  for (const plot of plots) plot.setSize({ width: Math.max(200, plot.root.parentElement.clientWidth), height: HEIGHT });
}).observe(place);
load();

// The admin code leaves the page when it is hidden.
document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-hide-code]")) return;
  const code = document.getElementById("code");
  code.replaceChildren(document.getElementById("code-hidden").content.cloneNode(true));
  globalThis.htmx?.process(code);
  code.querySelector("button").focus();
});

// The restart: asked for once, then waited for.
const form = document.querySelector("[data-restart]");
const dialog = document.getElementById("restarting");
const status = dialog.querySelector("[data-waiting]");
const pause = (millis) => new Promise((done) => setTimeout(done, millis));
dialog.addEventListener("cancel", (event) => event.preventDefault());
form.addEventListener("submit", (event) => {
  if (!form.dataset.confirmed) return; // the question comes first
  event.preventDefault();
  event.stopPropagation();
  restart();
});

async function restart() {
  clearTimeout(timer);
  let began = Number(form.dataset.restart);
  try {
    const answer = await fetch(form.action, { method: "POST", headers: { Accept: "application/json", "HX-Request": "true" } });
    if (!answer.ok) {
      const box = new DOMParser().parseFromString(await answer.text(), "text/html");
      notice(box.querySelector(".notice span")?.textContent ?? answer.statusText, "bad");
      return;
    }
    began = (await answer.json()).began;
  } catch {
    // the answer was cut off by the restart itself
  }
  status.textContent = status.dataset.textDraining;
  dialog.showModal();
  const until = Date.now() + 120_000;
  while (Date.now() < until) {
    await pause(700);
    try {
      const answer = await fetch(`${form.action}/state`, { headers: { Accept: "application/json" }, cache: "no-store" });
      const found = answer.ok ? await answer.json() : {};
      if (answer.status === 401 || (found.ready && found.began !== began)) {
        status.textContent = status.dataset.textBack;
        location.reload();
        return;
      }
    } catch {
      status.textContent = status.dataset.textStarting;
    }
  }
  status.textContent = status.dataset.textLost;
  dialog.querySelector("progress").hidden = true;
  dialog.querySelector("[data-reload]").hidden = false;
}
