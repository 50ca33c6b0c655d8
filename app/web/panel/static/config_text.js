// config.env as text: the differences and problems are shown before it is saved.
import { notice } from "./panel.js";

const root = document.getElementById("config-text");
const dialog = document.getElementById("config-review");
const place = document.getElementById("config-review-body");

async function review() {
  let answer;
  try {
    answer = await fetch(dialog.dataset.address, {
      method: "POST",
      headers: { "Content-Type": "application/json", "HX-Request": "true" },
      body: JSON.stringify({ content: root.editorText() }),
    });
  } catch {
    return notice(root.dataset.textUnreachable, "bad");
  }
  if (answer.status === 401 || answer.redirected) return notice(root.dataset.textLogin, "bad");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!answer.ok) return notice(page.body.querySelector("span")?.textContent ?? answer.statusText, "bad");
  place.replaceChildren(...page.body.childNodes);
  dialog.querySelector('[value="save"]').disabled = Boolean(place.querySelector('[data-kind="bad"][role="alert"], .empty'));
  dialog.showModal();
}

dialog.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  dialog.close();
  if (button.value === "save") root.saveEditor();
});
// Both ways to save lead through the review.
root.addEventListener("click", (event) => {
  if (!event.target.closest("[data-editor-save]")) return;
  event.stopPropagation();
  review();
}, true);
root.addEventListener("keydown", (event) => {
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "s") return;
  event.preventDefault();
  event.stopPropagation();
  review();
}, true);
root.addEventListener("editor:saved", (event) => notice(event.detail.answer.message, "ok"));
