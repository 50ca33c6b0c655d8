// The set-up assistant: a model is chosen by a click, and leaving with answers asks first.
const form = document.getElementById("setup");
const model = form?.querySelector('[name="model"]:not([type="hidden"])');
let leaving = false;

if (model) {
  const buttons = [...form.querySelectorAll("[data-model]")];
  const mark = () => buttons.forEach((button) => {
    button.setAttribute("aria-pressed", String(button.dataset.model === model.value));
    button.hidden = !buttons.some((other) => other.dataset.model === model.value) && !button.dataset.model.toLowerCase().includes(model.value.toLowerCase());
  });
  for (const button of buttons) button.addEventListener("click", () => {
    model.value = button.dataset.model;
    mark();
  });
  model.addEventListener("input", mark);
}
form?.addEventListener("submit", () => (leaving = true));
addEventListener("pageshow", () => (leaving = false));
addEventListener("beforeunload", (event) => {
  const touched = form && [...form.elements].some((field) => field.name && field.type !== "hidden" && "defaultValue" in field && field.value !== field.defaultValue);
  if (touched && !leaving) event.preventDefault();
});
