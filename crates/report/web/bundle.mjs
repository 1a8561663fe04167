// What goes into the page, in one place: used by build.mjs, which writes it, and check.mjs, which compares it.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

export const root = dirname(fileURLToPath(import.meta.url));

/** SHA-256 over everything that determines the bundle; the crate's tests recompute it without Node.js. */
function sourceDigest() {
  const files = ["bundle.mjs", "package-lock.json"];
  const walk = (folder) => {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) walk(path);
      else files.push(relative(root, path).split(sep).join("/"));
    }
  };
  walk(join(root, "src"));
  const digest = createHash("sha256");
  for (const file of files.sort()) {
    const content = readFileSync(join(root, file));
    digest.update(`${file}\0${content.length}\0`).update(content);
  }
  return digest.digest("hex");
}

/** The files of dist/, by name. */
export async function bundle() {
  const license = readFileSync(join(root, "node_modules/@dagrejs/dagre/LICENSE"), "utf8");
  const options = {
    absWorkingDir: root,
    outdir: "dist",
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["es2022"],
    charset: "ascii",
    legalComments: "none",
    logLevel: "warning",
  };
  const page = await build({
    ...options,
    entryPoints: { report: "src/main.ts", page: "src/page.css" },
    // dagre's licence asks that its text goes with every copy, and every page is one.
    banner: { js: `/* @dagrejs/dagre and @dagrejs/graphlib:\n${license.trim()}\n*/` },
  });
  // The cut alone, for the crate's tests.
  const cut = await build({ ...options, entryPoints: { cut: "src/cut/engine.ts" }, globalName: "transectCut" });
  const files = new Map([...page.outputFiles, ...cut.outputFiles].map((file) => [relative(join(root, "dist"), file.path), file.text]));
  files.set("sources.sha256", `${sourceDigest()}\n`);
  return files;
}
