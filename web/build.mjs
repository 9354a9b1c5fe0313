// Builds src/ into tacit/web/static (or into the folder given): one script and one style sheet a page, and its HTML.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
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

// What was built from what, so that a test can tell old pages where there is no Node.
const digest = (path) => createHash("sha256").update(readFileSync(path)).digest("hex");
const source = (path) => [relative(here, path).split(sep).join("/"), digest(path)];
const sources = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
const settings = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"].map((name) => join(here, name));
const pages = readdirSync(out).filter((name) => name !== "built.json");
const built = {
  sources: Object.fromEntries([...sources, ...settings].map(source).sort(([one], [other]) => (one < other ? -1 : 1))),
  pages: Object.fromEntries(pages.sort().map((name) => [name, digest(join(out, name))])),
};
writeFileSync(join(out, "built.json"), `${JSON.stringify(built, null, 1)}\n`);
