// The live preview of a prompt beside its editor, and the list of placeholders that can be put in.
import { notice } from "./panel.js";

const root = document.querySelector("[data-preview]");
const editor = root && document.getElementById(root.dataset.preview);

if (editor) {
  const result = root.querySelector("[data-preview-result]");
  const model = root.querySelector("[name=model]");
  const role = root.querySelector("[name=role]");
  const live = root.querySelector("[name=live]");
  let timer;
  let running;
  const text = () => editor.editorText?.() ?? editor.querySelector(".editor-source").value;

  async function show(recall = false) {
    clearTimeout(timer);
    running?.abort();
    running = new AbortController();
    result.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(root.dataset.address, {
        method: "POST",
        headers: { "Content-Type": "application/json", "HX-Request": "true" },
        body: JSON.stringify({ text: text(), model: model.value, role: role.value, recall }),
        signal: running.signal,
      });
      const html = await answer.text();
      if (!answer.ok) throw new Error(new DOMParser().parseFromString(html, "text/html").querySelector(".notice span")?.textContent ?? answer.statusText);
      // A fragment that the server has escaped, as htmx would put it in.
      const found = new DOMParser().parseFromString(html, "text/html");
      result.replaceChildren(...found.body.childNodes);
    } catch (fault) {
      if (fault.name === "AbortError") return;
      notice(fault.message, "bad");
    }
    result.removeAttribute("aria-busy");
  }

  const soon = () => {
    clearTimeout(timer);
    if (live.checked) timer = setTimeout(show, 700);
  };
  editor.addEventListener("editor:change", soon);
  editor.addEventListener("input", soon);
  editor.addEventListener("editor:saved", () => live.checked && show());
  model.addEventListener("change", () => show());
  role.addEventListener("change", () => show());
  live.addEventListener("change", () => live.checked && show());
  root.querySelector("[data-preview-now]").addEventListener("click", () => show());
  root.addEventListener("click", (event) => event.target.closest("[data-preview-recall]") && show(true));
  show();

  document.addEventListener("click", (event) => {
    const place = event.target.closest("[data-insert]");
    if (place && editor.insertText) editor.insertText(place.dataset.insert);
  });
}
