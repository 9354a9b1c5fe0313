// Builds src/ into tacit/web/static (or into the folder given): one script and one style sheet a page, and its HTML.
import { build } from "esbuild";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "tacit", "web", "static");
// A page: the name of its files, its entry in src/, its title.
const PAGES = [
  { name: "board", entry: "board.ts", title: "Tacit board" },
  { name: "keyboard", entry: "keyboard/page.ts", title: "Tacit keyboard" },
];

mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: Object.fromEntries([["theme", "src/theme.ts"], ...PAGES.map((page) => [page.name, `src/${page.entry}`])]),
  outdir: out,
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  legalComments: "eof",
  logLevel: "warning",
});
const template = readFileSync(join(here, "src", "page.html"), "utf8");
for (const page of PAGES) {
  writeFileSync(join(out, `${page.name}.html`), template.replaceAll("{name}", page.name).replaceAll("{title}", page.title));
}
writeFileSync(join(out, "icon.svg"), readFileSync(join(here, "src", "icon.svg"), "utf8"));
