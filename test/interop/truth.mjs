// Works out from the folder of run-interop --capture --addresses who the clients of a run were and how
// each stands to the newer transports, by section 4 of the project's retirement rules and by nothing of
// the bridge's own code. Addresses are told apart by their /24, which is what a ledger keeps of them.
import fs from 'node:fs';
import path from 'node:path';

const LEGACY = 'http_sse', STREAMABLE = 'streamable_http';
const throwAway = 'mcp-remote-fallback-test'; // opens no conversation that anybody uses
const notCalls = ['initialize', 'server/discover', 'ping']; // answered on the way, or a handshake
const quick = 10_000; // ms from a Streamable request to the legacy GET of a client that falls back

const header = (r, name) => { for (let i = 0; i < r.headers.length; i += 2) if (r.headers[i].toLowerCase() === name) return r.headers[i + 1]; };
const lines = (file) => fs.readFileSync(file, 'utf8').split('\n').filter(Boolean).map((l) => JSON.parse(l));
const prefixOf = (address) => `${address.split('.').slice(0, 3).join('.')}.0/24`;
const messagesOf = (r) => (r.body?.batch ?? [r.body ?? {}]).filter((m) => m.kind);
const familyOf = (agent) => /^[^\/ ;@(]*/.exec(agent ?? '')[0]; // the name of the first product
const sessionOf = (url) => new URL(url, 'http://127.0.0.1').searchParams.get('sessionId');

// nameOf takes mcp-remote's addition off a name.
export function nameOf(info) {
  const m = /^(.*) \(via mcp-remote (.*)\)$/.exec(info?.name ?? '');
  return m ? { name: m[1], version: info.version, proxy: `mcp-remote ${m[2]}` } : { name: info?.name ?? '', version: info?.version ?? '', proxy: '' };
}

// conversations lists what one cell did: {transport, at, info, requested, negotiated, stateless, discover,
// header, messages, answered, calls, good, errors}.
function conversations(dir, cell) {
  const requests = lines(path.join(dir, `${cell}.jsonl`)).sort((a, b) => a.n - b.n);
  const answers = lines(path.join(dir, `${cell}.answers`));
  const streams = new Map(); // legacy session to its conversation
  const sessions = new Map(); // Streamable session to its conversation
  const all = [];
  const begin = (transport, r) => { const c = { transport, at: r.at, cell, agent: familyOf(header(r, 'user-agent')), messages: 0, calls: 0, errors: 0, good: 0 }; all.push(c); return c; };

  for (const r of requests) {
    const endpoint = answers.find((a) => a.n === r.n && a.endpoint)?.endpoint;
    if (r.method === 'GET' && endpoint) {
      const c = begin(LEGACY, r);
      c.n = r.n;
      c.header = header(r, 'mcp-protocol-version');
      streams.set(sessionOf(endpoint), c);
      continue;
    }
    if (r.method !== 'POST') continue;
    const legacy = sessionOf(r.path);
    for (const m of messagesOf(r)) {
      const answer = answers.find((a) => a.n === (legacy ? streams.get(legacy)?.n : r.n) && m.rid !== undefined && a.id === m.rid);
      let c;
      if (legacy) c = streams.get(legacy);
      else if (m.method === 'initialize') { c = begin(STREAMABLE, r); if (r.sid) sessions.set(r.sid, c); }
      else if (header(r, 'mcp-session-id')) c = sessions.get(header(r, 'mcp-session-id'));
      else if (m.kind === 'request') c = begin(STREAMABLE, r);
      if (c) heard(c, r, m, answer);
    }
  }
  return all;
}

// heard adds a message of the client, and the answer to it, to a conversation.
function heard(c, r, m, answer) {
  c.messages++;
  const claims = m.method !== 'initialize' && m.protocolVersion !== undefined; // a request of 2026-07-28
  if (c.transport === LEGACY) {
    c.header ??= header(r, 'mcp-protocol-version');
    if (m.method === 'server/discover' || claims) c.discover = true;
  }
  if (m.method === 'initialize' || (claims && c.transport === STREAMABLE)) {
    c.info = m.clientInfo;
    c.requested = m.protocolVersion ?? '';
    c.stateless = claims;
    if (answer?.ok) c.negotiated = claims ? m.protocolVersion : answer.revision;
  }
  if (m.kind !== 'request') return;
  if (answer) c.answered = true;
  if (answer?.ok) c.good++;
  if (notCalls.includes(m.method) || (claims && c.transport === LEGACY)) return;
  c.calls++;
  if (answer?.code !== undefined) c.errors++;
}

// classOf is the class of one name of one network and User-Agent, by the table of section 4: mine is what
// it did, theirs what all names of that network and User-Agent did.
function classOf(name, mine, theirs, proxy) {
  const over = (transport) => mine.filter((c) => c.transport === transport);
  const legacy = over(LEGACY), good = over(STREAMABLE).some((c) => c.good > 0);
  if (name === throwAway || mine.every((c) => c.messages === 0)) return 'probe';
  if (legacy.length === 0) return 'modern'; // migrated, from nothing
  if (good) return 'proven';
  const tried = theirs.filter((c) => c.transport === STREAMABLE);
  if (tried.some((t) => t.good === 0 && legacy.some((c) => c.at >= t.at && c.at - t.at <= quick))) return 'probing';
  if (legacy.some((c) => c.requested >= '2025-03-26' || c.discover || c.header)) return 'capable';
  if (proxy) return 'capable'; // the table of known programs has mcp-remote
  return 'unknown';
}

// truth returns the identities that the clients of a capture are: {prefix, name, agent, cells, class, requested, ...}.
export function truth(dir) {
  const networks = new Map();
  for (const file of fs.readdirSync(dir).filter((f) => f.endsWith('.jsonl')).sort()) {
    const address = lines(path.join(dir, file)).find((r) => r.address)?.address;
    if (!address) continue;
    const prefix = prefixOf(address);
    networks.set(prefix, [...(networks.get(prefix) ?? []), ...conversations(dir, file.replace(/\.jsonl$/, ''))]);
  }
  const out = [];
  for (const [prefix, all] of networks) {
    const key = (c) => JSON.stringify([nameOf(c.info).name, c.agent]);
    for (const k of new Set(all.map(key))) {
      const [name, agent] = JSON.parse(k);
      out.push(identity(prefix, name, all.filter((c) => key(c) === k), all.filter((c) => c.agent === agent)));
    }
  }
  return out;
}

function identity(prefix, name, mine, all) {
  const spoke = mine.filter((c) => c.messages > 0);
  const evident = spoke.some((c) => c.transport === LEGACY) ? LEGACY : STREAMABLE;
  const set = (list) => [...new Set(list.filter(Boolean))].sort();
  const count = (transport) => {
    // Where Streamable HTTP is not served nobody uses it: such an attempt is evidence, no use.
    const of = spoke.filter((c) => c.transport === transport);
    if (of.length === 0 || (transport === STREAMABLE && !of.some((c) => c.answered))) return undefined;
    return { sessions: of.filter((c) => c.negotiated && !c.stateless).length, calls: of.reduce((n, c) => n + c.calls, 0), errors: of.reduce((n, c) => n + c.errors, 0) };
  };
  const people = mine.map((c) => nameOf(c.info));
  const kind = classOf(name, mine, all, people.some((p) => p.proxy));
  const legacy = spoke.filter((c) => c.transport === LEGACY);
  return {
    prefix, name, agent: mine[0].agent, class: kind, cells: set(mine.map((c) => c.cell)),
    clients: set(people.map((p) => [p.name, p.version, p.proxy].join('|'))),
    requested: set(spoke.filter((c) => c.transport === evident).map((c) => c.requested)),
    negotiated: set(spoke.filter((c) => c.transport === evident).map((c) => c.negotiated)),
    http_sse: count(LEGACY), streamable_http: count(STREAMABLE),
    signs: set([
      legacy.some((c) => c.requested >= '2025-03-26') && 'requested', legacy.some((c) => c.discover) && 'discover',
      legacy.some((c) => c.header) && 'version_header', spoke.some((c) => c.transport === STREAMABLE && c.good > 0) && 'streamable',
    ]),
    blocks: legacy.length > 0 && kind !== 'probe',
  };
}
