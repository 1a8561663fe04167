// A picture of a report: node screenshot.mjs FILE.html OUT.png [--size 1400x1000] [--dark] [--place '#/component/…']
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { pathToFileURL } from "node:url";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    size: { type: "string", default: "1400x1000" },
    dark: { type: "boolean", default: false },
    place: { type: "string", default: "" },
  },
});
const [page, picture] = positionals;
const browser = [process.env.TRANSECT_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .filter(Boolean)
  .find((path) => existsSync(path));
if (page === undefined || picture === undefined || !/^\d+x\d+$/.test(values.size)) {
  console.error("usage: node screenshot.mjs FILE.html OUT.png [--size WIDTHxHEIGHT] [--dark] [--place '#/component/NAME']");
  process.exit(2);
}
if (browser === undefined) {
  console.error("no Chromium found: apt install chromium, or set TRANSECT_CHROMIUM to its path");
  process.exit(2);
}
const profile = mkdtempSync(join(tmpdir(), "transect-screenshot-"));
const result = spawnSync(
  browser,
  [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    `--user-data-dir=${profile}`,
    `--window-size=${values.size.replace("x", ",")}`,
    `--screenshot=${resolve(picture)}`,
    // Lets timers and animation frames run out before the picture is taken.
    "--virtual-time-budget=3000",
    `${pathToFileURL(resolve(page))}?scroll=no&theme=${values.dark ? "dark" : "light"}${values.place}`,
  ],
  { stdio: ["ignore", "ignore", "pipe"] },
);
rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
if (result.status !== 0 || !existsSync(picture)) {
  console.error(String(result.stderr ?? result.error));
  process.exit(1);
}
