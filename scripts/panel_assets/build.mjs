// Bundles CodeMirror once and copies the other libraries, each with its licence.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

const target = join(import.meta.dirname, "../../app/web/panel/static/vendor");
const modules = join(import.meta.dirname, "node_modules");
await mkdir(target, { recursive: true });

const { metafile } = await build({
  entryPoints: [join(import.meta.dirname, "editor.js")],
  bundle: true, minify: true, format: "esm", target: "es2022", legalComments: "none",
  metafile: true, outfile: join(target, "codemirror.js"),
});
const copies = {
  "htmx.js": "htmx.org/dist/htmx.min.js",
  "uplot.js": "uplot/dist/uPlot.esm.js",
  "uplot.css": "uplot/dist/uPlot.min.css",
  "sortable.js": "sortablejs/modular/sortable.core.esm.js",
};
for (const [name, from] of Object.entries(copies)) {
  const text = await readFile(join(modules, from), "utf8");
  const small = name.endsWith(".js") && !from.includes(".min.")
    ? (await build({ stdin: { contents: text, loader: "js" }, minify: true, format: "esm", write: false, legalComments: "inline" })).outputFiles[0].text
    : text;
  await writeFile(join(target, name), small);
}

const packages = new Set(["htmx.org", "uplot", "sortablejs"]);
for (const input of Object.keys(metafile.inputs)) {
  const found = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
let licences = "The files in this folder come from these packages of npm, each under its own licence.\n";
for (const name of [...packages].sort()) {
  const folder = join(modules, name);
  const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
  const file = (await readdir(folder)).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? (await readFile(join(folder, file), "utf8")).trim() : "";
  licences += `\n${"=".repeat(78)}\n${name} ${version} (${license})\n\n${text}\n`;
}
await writeFile(join(target, "LICENSES.txt"), licences);
