// Choosing notes, and the way to a new one.
const form = document.querySelector("[data-new-note]");
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  const { notebook, file } = Object.fromEntries(new FormData(form));
  location.href = `${form.dataset.base}${encodeURIComponent(notebook.trim())}/new?file=${encodeURIComponent(file)}`;
});
document.querySelector("[data-all]")?.addEventListener("change", (event) => {
  for (const box of document.querySelectorAll('#notes [name="file"]')) box.checked = event.target.checked;
});
document.addEventListener("htmx:afterSwap", (event) => {
  const gone = event.detail.target?.querySelector?.("script.gone");
  if (!gone) return;
  const paths = new Set(JSON.parse(gone.textContent));
  for (const box of document.querySelectorAll('#notes [name="file"]')) {
    if ([...paths].some((path) => path.endsWith(`/${box.value}`))) box.closest("tr").remove();
  }
});
document.addEventListener("notes:changed", () => location.reload());
