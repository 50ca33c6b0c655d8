// Agents of AgentAssistant: a card for each, saved together.
import { ask } from "./panel.js";
import { Record, exchange, labelled, made, movable } from "./records.js";

const address = "/admin_api/agent-assistant/config";
const root = document.getElementById("agent-assistant");
const list = root.querySelector("[data-agents]");
const [rounds, hours, everybody] = ["rounds", "hours", "everybody"].map((id) => document.getElementById(id));
const numbers = new Set(["maxOutputTokens", "temperature"]);
const fields = (card) => [...card.querySelectorAll("[data-name]")];

function titles() {
  for (const card of list.children) card.querySelector("[data-title]").textContent = card.querySelector('[data-name="chineseName"]').value.trim() || root.dataset.unnamed;
  root.querySelector("[data-empty]").hidden = list.children.length > 0;
}

function add(agent) {
  const card = labelled(made("agent-card"));
  for (const field of fields(card)) field.value = agent[field.dataset.name] ?? "";
  list.append(card);
  return card;
}

const record = new Record(root, {
  address: () => address,
  gather() {
    const agents = [...list.children].map((card) =>
      Object.fromEntries(fields(card).map((field) => [field.dataset.name, numbers.has(field.dataset.name) && field.value !== "" ? Number(field.value) : field.value])),
    );
    if (agents.some((agent) => !agent.chineseName.trim() || !agent.modelId.trim())) throw new Error(root.dataset.nameless);
    return { maxHistoryRounds: Number(rounds.value || 7), contextTtlHours: Number(hours.value || 24), globalSystemPrompt: everybody.value, agents };
  },
});

root.addEventListener("input", titles);
root.querySelector("[data-add]").addEventListener("click", () => {
  const card = add({ maxOutputTokens: 40000, temperature: 0.7 });
  titles();
  card.querySelector('[data-name="chineseName"]').focus();
  record.touch();
});
list.addEventListener("click", async (event) => {
  const card = event.target.closest("[data-remove]")?.closest("[data-row]");
  if (!card || !(await ask(root.dataset.remove))) return;
  card.remove();
  titles();
  root.querySelector("[data-add]").focus();
  record.touch();
});

try {
  const { found, fingerprint } = await exchange(address);
  record.fingerprint = fingerprint;
  [rounds.value, hours.value, everybody.value] = [found.maxHistoryRounds, found.contextTtlHours, found.globalSystemPrompt];
  list.replaceChildren();
  for (const agent of found.agents) add(agent);
  titles();
  movable(list, () => record.touch());
} catch (fault) {
  list.textContent = fault.message;
  root.querySelector("[data-record-save]").disabled = true;
}
