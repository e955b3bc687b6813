// Installs the pinned reference servers into the cache folder, once per lockfile, and prints the
// path of server-everything's main file. Safe to run several times at once: each run installs into
// a folder of its own and the first one to be done gives it the final name.
import crypto from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const here = path.dirname(fileURLToPath(import.meta.url));
const pins = ['package.json', 'package-lock.json'];
const hash = crypto.createHash('sha256');
for (const f of pins) hash.update(fs.readFileSync(path.join(here, f)));
const cache = process.env.MCP_BRIDGE_CACHE ?? path.join(process.env.XDG_CACHE_HOME ?? path.join(os.homedir(), '.cache'), 'mcp-bridge');
const dir = path.join(cache, `refs-node-${hash.digest('hex').slice(0, 12)}`);

if (!fs.existsSync(dir)) {
  fs.mkdirSync(cache, { recursive: true });
  const fresh = fs.mkdtempSync(path.join(cache, 'installing-'));
  try {
    for (const f of pins) fs.copyFileSync(path.join(here, f), path.join(fresh, f));
    const npm = spawnSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: fresh, stdio: ['ignore', 2, 2] });
    if (npm.status !== 0) {
      console.error(`npm ci of the reference servers failed (${npm.status ?? npm.error})`);
      process.exitCode = 1;
    } else {
      try {
        fs.renameSync(fresh, dir);
      } catch (e) {
        if (!fs.existsSync(dir)) throw e; // else another run was first
      }
    }
  } finally {
    fs.rmSync(fresh, { recursive: true, force: true });
  }
}
if (!process.exitCode) console.log(path.join(dir, 'node_modules/everything-2026.8.31/dist/index.js'));
