// Fails if the committed bundle is not what the sources give.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { bundle, root } from "./bundle.mjs";

const limit = 300 * 1024;
let total = 0;
const stale = [];
for (const [name, text] of await bundle()) {
  if (name !== "cut.js") total += text.length;
  let committed = "";
  try {
    committed = readFileSync(join(root, "dist", name), "utf8");
  } catch {
    // A missing file is stale like any other.
  }
  if (committed !== text) stale.push(name);
}
if (stale.length > 0) {
  console.error(`stale in dist/: ${stale.join(", ")}; run \`npm run build\` in crates/report/web and commit dist/`);
  process.exitCode = 1;
}
if (total > limit) {
  console.error(`the bundle has ${total} bytes, more than ${limit}`);
  process.exitCode = 1;
}
