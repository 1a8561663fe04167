import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { bundle, root } from "./bundle.mjs";

mkdirSync(join(root, "dist"), { recursive: true });
for (const [name, text] of await bundle()) {
  writeFileSync(join(root, "dist", name), text);
  console.log(`dist/${name}  ${(text.length / 1024).toFixed(1)} KiB`);
}
