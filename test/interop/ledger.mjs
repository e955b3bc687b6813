// Holds the bridge's report against what its clients were seen to do.
//   node ledger.mjs CAPTURE REPORT.json
// CAPTURE is the folder of run-interop --capture --addresses, REPORT.json what bridge report --output json
// says of the state folder of the bridge that the run was against. One check is one identity; the rows of
// the report that a capture does not explain count too. Last line: N passed, M failed.
import fs from 'node:fs';
import { truth } from './truth.mjs';

const [capture, file] = process.argv.slice(2);
const report = JSON.parse(fs.readFileSync(file, 'utf8'));
const expected = truth(capture);

// view is a row of the report in the shape of truth().
function view(i) {
  const count = (t) => i.transports[t] && (({ sessions, calls, errors }) => ({ sessions, calls, errors }))(i.transports[t]);
  const set = (list) => [...new Set(list)].sort();
  return {
    class: i.class,
    clients: i.clients.length ? set(i.clients.map((c) => [c.name, c.version, c.proxy ?? ''].join('|'))) : ['||'],
    requested: set(i.requested), negotiated: set(i.negotiated),
    http_sse: count('http_sse'), streamable_http: count('streamable_http'),
    signs: set(i.evidence.map((e) => e.kind).filter((k) => ['requested', 'discover', 'version_header', 'streamable'].includes(k))),
    blocks: i.blocks,
  };
}
const nameOf = (i) => (i.kind === 'client' ? i.id.slice(0, i.id.lastIndexOf('@')) : '');

let passed = 0;
const rows = [];
const differ = (who, field, did, says) => rows.push([who, field, JSON.stringify(did ?? null), JSON.stringify(says ?? null)]);
const unexplained = new Set(report.identities);
for (const e of expected) {
  const who = `${e.name || '(no clientInfo)'} ${e.prefix} ${e.agent || '(no User-Agent)'} (${e.cells.join(', ')})`;
  const found = report.identities.filter((i) => i.prefix === e.prefix && nameOf(i) === e.name && (i.user_agent ?? '') === e.agent);
  found.forEach((i) => unexplained.delete(i));
  if (found.length !== 1) { differ(who, 'rows', 1, found.length); continue; }
  const says = view(found[0]), before = rows.length;
  for (const field of Object.keys(says)) if (JSON.stringify(says[field]) !== JSON.stringify(e[field])) differ(who, field, e[field], says[field]);
  if (rows.length === before) passed++;
}
for (const i of unexplained) differ(i.id, 'rows', 0, 1);

const calls = expected.reduce((n, e) => n + (e.http_sse?.calls ?? 0), 0);
if (report.window.legacy_calls === calls) passed++;
else differ('all', 'calls over HTTP+SSE', calls, report.window.legacy_calls);

const classes = {};
for (const e of expected) classes[e.class] = (classes[e.class] ?? 0) + 1;
console.log(`ledger: ${expected.length} identities: ${Object.entries(classes).sort().map(([c, n]) => `${n} ${c}`).join(', ')}`);
if (rows.length) {
  const table = [['identity', 'field', 'what it did', 'what the report says'], ...rows];
  const width = [0, 1, 2].map((k) => Math.max(...table.map((r) => r[k].length)));
  for (const r of table) console.log(r.map((cell, k) => cell.padEnd(width[k] ?? 0)).join('  ').trimEnd());
}
const failed = new Set(rows.map((r) => r[0])).size;
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
