// One published TypeScript client that does what it is told on standard input, a word a line, and says on standard output what came of
// it, a JSON object a line: {"step", "ok", "detail"}. Words: connect, call, quit. It lives until quit, so that one process
// meets a stage, and the stage after it. The detail of a failure is what a person would see: the message of the error and, of a program
// that is run with --exec, what that wrote to standard error meanwhile.
//
//   --pkg P        npm alias: sdk-1.0.4, client-2.4.0
//   --kind K       sse, http, auto (Streamable HTTP first, then SSE: the pattern of the SDK's README), exec
//   --url U        of the server
//   --exec JSON    command line of a stdio server, for exec
import process from 'node:process';
import readline from 'node:readline';

const a = {};
for (let i = 2; i + 1 < process.argv.length; i += 2) a[process.argv[i].slice(2)] = process.argv[i + 1];
const v2 = a.pkg.startsWith('client-2');
const minor = Number(a.pkg.match(/\d+\.(\d+)/)[1]);
if (!v2 && minor < 5) globalThis.EventSource = (await import('eventsource-2')).default; // the SDK did not bring one yet

let Client, SSE, HTTP, Stdio;
if (v2) {
  ({ Client, SSEClientTransport: SSE, StreamableHTTPClientTransport: HTTP } = await import(a.pkg));
} else {
  ({ Client } = await import(`${a.pkg}/client/index.js`));
  if (a.kind === 'sse' || a.kind === 'auto') ({ SSEClientTransport: SSE } = await import(`${a.pkg}/client/sse.js`));
  if (a.kind === 'http' || a.kind === 'auto') ({ StreamableHTTPClientTransport: HTTP } = await import(`${a.pkg}/client/streamableHttp.js`));
  if (a.kind === 'exec') ({ StdioClientTransport: Stdio } = await import(`${a.pkg}/client/stdio.js`));
}

let client, used;
let stderr = '';
const told = []; // log messages of the server

async function connectBy(kind) {
  client = new Client({ name: 'retirement-test', version: '1' }, { capabilities: {} });
  client.fallbackNotificationHandler = async (n) => { if (n.method === 'notifications/message') told.push(String(n.params?.data)); };
  used = kind;
  if (kind === 'exec') {
    const [command, ...args] = JSON.parse(a.exec);
    const transport = new Stdio({ command, args, stderr: 'pipe', env: { ...process.env } });
    const done = client.connect(transport);
    transport.stderr?.on('data', (d) => { stderr += d; });
    await done;
    return;
  }
  await client.connect(new (kind === 'sse' ? SSE : HTTP)(new URL(a.url)));
}

const steps = {
  async connect() {
    if (a.kind !== 'auto') await connectBy(a.kind);
    else {
      try {
        await connectBy('http');
      } catch {
        await client.close().catch(() => {});
        await connectBy('sse');
      }
    }
    return `connected by ${used}`;
  },
  async call() {
    const args = { name: 'echo', arguments: { text: 'hello' } };
    const r = v2 ? await client.callTool(args) : await client.callTool(args, undefined);
    return JSON.stringify(r.content);
  },
  async told() { return told.join('\n'); },
};

function limited(p) {
  let timer;
  return Promise.race([p, new Promise((_, no) => { timer = setTimeout(() => no(new Error('no answer within 25 s')), 25000); })]).finally(() => clearTimeout(timer));
}

const print = (o) => process.stdout.write(`${JSON.stringify(o)}\n`);
process.on('unhandledRejection', (e) => { stderr += `unhandled: ${e?.message ?? e}\n`; });
for await (const line of readline.createInterface({ input: process.stdin })) {
  const step = line.trim();
  if (step === 'quit') break;
  stderr = '';
  try {
    print({ step, ok: true, detail: await limited(steps[step]()) });
  } catch (e) {
    if (a.kind === 'exec') await new Promise((r) => { setTimeout(r, 1000); }); // what it has to say comes by another pipe
    print({ step, ok: false, detail: `${e?.message ?? e}${stderr ? `\n${stderr}` : ''}` });
  }
}
setTimeout(() => process.exit(0), 2000).unref();
await client?.close().catch(() => {});
process.exit(0);
