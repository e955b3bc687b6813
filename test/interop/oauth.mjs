// Signs published TypeScript clients in to a bridge that takes the tokens of an authorization server made here: discovery
// from the 401 on (RFC 9728, RFC 8414), dynamic registration, code with PKCE, token. Nobody tells the clients anything but
// the URL of the bridge.
//   node oauth.mjs issuer PORT AUDIENCE            the authorization server; tokens of clients that ask for none are for AUDIENCE
//   node oauth.mjs clients BASE ISSUER NODEDIR     the clients; last line: N passed, M failed
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const callback = 'http://127.0.0.1:9/callback'; // nobody listens there: the code is read off the redirect

function issuer(port, audience) {
  const url = `http://127.0.0.1:${port}`;
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const codes = new Map(), clients = new Set(), asked = {};
  const b64 = (x) => Buffer.from(typeof x === 'string' ? x : JSON.stringify(x)).toString('base64url');
  const token = (claims) => {
    const text = `${b64({ alg: 'ES256', kid: 'k1', typ: 'at+jwt' })}.${b64(claims)}`;
    return `${text}.${sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  };
  const metadata = {
    issuer: url, authorization_endpoint: `${url}/authorize`, token_endpoint: `${url}/token`, registration_endpoint: `${url}/register`, jwks_uri: `${url}/keys`,
    response_types_supported: ['code'], grant_types_supported: ['authorization_code', 'refresh_token'], code_challenge_methods_supported: ['S256'],
    token_endpoint_auth_methods_supported: ['none'], id_token_signing_alg_values_supported: ['ES256'], subject_types_supported: ['public'],
  };
  const routes = {
    '/.well-known/oauth-authorization-server': () => metadata,
    '/.well-known/openid-configuration': () => metadata,
    '/keys': () => ({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k1', alg: 'ES256', use: 'sig' }] }),
    '/asked': () => asked,
    '/register': (_, body) => {
      const id = randomUUID();
      clients.add(id);
      return { ...JSON.parse(body), client_id: id, client_id_issued_at: 0 };
    },
    '/authorize': (q) => {
      if (!clients.has(q.get('client_id')) || q.get('code_challenge_method') !== 'S256') return null;
      const code = randomUUID();
      codes.set(code, { challenge: q.get('code_challenge'), resource: q.get('resource'), scope: q.get('scope') });
      const to = new URL(q.get('redirect_uri'));
      to.searchParams.set('code', code);
      if (q.get('state')) to.searchParams.set('state', q.get('state'));
      return { redirect: to.href };
    },
    '/token': (_, body) => {
      const q = new URLSearchParams(body), code = codes.get(q.get('code'));
      codes.delete(q.get('code'));
      if (!code || createHash('sha256').update(q.get('code_verifier') ?? '').digest('base64url') !== code.challenge) return null;
      const aud = q.get('resource') ?? code.resource ?? audience, now = Math.floor(Date.now() / 1000);
      const claims = { iss: url, sub: 'ada', aud, scope: code.scope ?? '', iat: now, exp: now + 600 };
      return { access_token: token(claims), token_type: 'Bearer', expires_in: 600, scope: code.scope ?? '' };
    },
  };
  createServer((req, res) => {
    let body = '';
    req.on('data', (d) => { body += d; });
    req.on('end', () => {
      const u = new URL(req.url, url), answer = routes[u.pathname]?.(u.searchParams, body);
      asked[u.pathname] = (asked[u.pathname] ?? 0) + 1;
      if (answer?.redirect) res.writeHead(302, { location: answer.redirect }).end();
      else res.writeHead(answer ? 200 : 400, { 'content-type': 'application/json' }).end(JSON.stringify(answer ?? { error: 'invalid_request' }));
    });
  }).listen(port, '127.0.0.1');
}

// A provider keeps what a client has learned, and lets the user agree at once. scope is for clients that ask for no more than they are
// configured with: those from 1.21 on read it off the challenge.
function newProvider(scope) {
  const kept = {};
  return {
    kept,
    get redirectUrl() { return callback; },
    get clientMetadata() {
      return { client_name: 'interop', redirect_uris: [callback], grant_types: ['authorization_code'], response_types: ['code'], token_endpoint_auth_method: 'none', ...(scope ? { scope } : {}) };
    },
    clientInformation: () => kept.client,
    saveClientInformation: (c) => { kept.client = c; },
    tokens: () => kept.tokens,
    saveTokens: (t) => { kept.tokens = t; },
    saveCodeVerifier: (v) => { kept.verifier = v; },
    codeVerifier: () => kept.verifier,
    redirectToAuthorization: (u) => { kept.authorize = u; },
  };
}

const cells = [
  ...['sdk-1.12.3', 'sdk-1.17.5', 'sdk-1.20.2', 'sdk-1.24.3', 'sdk-1.29.0', 'sdk-1.32.2', 'client-2.4.0'].flatMap((pkg) => [[pkg, 'http'], [pkg, 'sse']]),
];

async function load(nodeDir, pkg, kind) {
  const require = createRequire(path.join(nodeDir, 'package.json'));
  const get = (name) => import(pathToFileURL(require.resolve(name)).href);
  if (pkg.startsWith('client-2')) {
    const m = await import(pathToFileURL(path.join(nodeDir, 'node_modules', pkg, 'dist', 'index.mjs')).href);
    return { Client: m.Client, Transport: kind === 'sse' ? m.SSEClientTransport : m.StreamableHTTPClientTransport };
  }
  const { Client } = await get(`${pkg}/client/index.js`);
  const m = await get(`${pkg}/client/${kind === 'sse' ? 'sse' : 'streamableHttp'}.js`);
  return { Client, Transport: kind === 'sse' ? m.SSEClientTransport : m.StreamableHTTPClientTransport };
}

async function signIn(nodeDir, pkg, kind, base) {
  const { Client, Transport } = await load(nodeDir, pkg, kind);
  const url = new URL(base + (kind === 'sse' ? '/sse' : '/mcp')), provider = newProvider(/^sdk-1\.(\d|1\d|20)\./.test(pkg) ? 'mcp' : undefined);
  const open = async () => {
    const client = new Client({ name: 'oauth', version: pkg }, { capabilities: {} }), transport = new Transport(url, { authProvider: provider });
    return { client, transport, done: client.connect(transport) };
  };
  const first = await open();
  const refused = await first.done.then(() => null, (e) => e);
  if (!provider.kept.authorize) throw new Error(`was not sent to an authorization server: ${refused}`);
  const resource = new URL(provider.kept.authorize).searchParams.get('resource');
  const res = await fetch(provider.kept.authorize, { redirect: 'manual' });
  const code = new URL(res.headers.get('location')).searchParams.get('code');
  await first.transport.finishAuth(code);
  const second = await open();
  await second.done;
  const { tools } = await second.client.listTools();
  await second.client.close();
  await first.client.close().catch(() => {});
  if (!tools.length) throw new Error('no tools');
  return `resource ${resource ?? '-'}, scope ${new URL(provider.kept.authorize).searchParams.get('scope') ?? '-'}, ${tools.length} tools`;
}

async function clients(base, issuerURL, nodeDir) {
  let failed = 0;
  for (const [pkg, kind] of cells) {
    const limit = new Promise((_, no) => setTimeout(() => no(new Error('took longer than 20 s')), 20000).unref());
    const [ok, detail] = await Promise.race([signIn(nodeDir, pkg, kind, base), limit]).then((d) => [true, d], (e) => [false, String(e?.stack ?? e).slice(0, 600)]);
    failed += ok ? 0 : 1;
    console.log(`${ok ? 'ok  ' : 'FAIL'} ${pkg}/${kind}: ${detail}`);
  }
  console.log(JSON.stringify(await (await fetch(`${issuerURL}/asked`)).json()));
  console.log(`${cells.length - failed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

const [what, ...rest] = process.argv.slice(2);
if (what === 'issuer') issuer(Number(rest[0]), rest[1]);
else await clients(...rest);
