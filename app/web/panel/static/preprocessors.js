// The order of preprocessors: dragged, or moved by buttons, and saved as a list of names.
import { ask } from "./panel.js";
import { Record, exchange, movable } from "./records.js";

const root = document.getElementById("preprocessors");
const list = root.querySelector("[data-rows]");
const names = () => [...list.children].map((row) => row.dataset.name);
let known = JSON.parse(root.dataset.known); // as it is stored; the page shows it by stages

const record = new Record(root, {
  address: () => "/admin_api/preprocessors/order",
  gather: () => ({ order: names() }),
  fingerprint: undefined,
  saved: (found) => {
    known = found.newOrder ?? names();
  },
});

// The order has no version: what is there now is compared before it is replaced.
const save = record.save.bind(record);
record.save = async () => {
  const now = await exchange("/admin_api/preprocessors/order").then(({ found }) => found.order.map((one) => one.name), () => known);
  if (now.join("\n") !== known.join("\n") && !(await ask(root.dataset.changed))) return false;
  return save(undefined);
};
movable(list, () => record.touch());
