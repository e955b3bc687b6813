// A small server on an old release of the TypeScript SDK:
//
//   node server.mjs 1.0.4|1.12.3 stdio
//   node server.mjs 1.0.4|1.12.3 sse PORT          GET /sse, POST /messages
//   node server.mjs 1.12.3 streamable PORT         /mcp, with sessions
//
// Tools: echo answers with its text; slow waits that many seconds before.
import http from 'node:http';
import { randomUUID } from 'node:crypto';

const [version, mode, port] = process.argv.slice(2);
const from = path => import(`sdk-${version}/${path}`);
const { Server } = await from('server/index.js');
const types = await from('types.js');

function build() {
  const server = new Server({ name: `typescript-${version}`, version }, { capabilities: { tools: {} } });
  const object = { type: 'object', properties: { text: { type: 'string' }, seconds: { type: 'number' } } };
  server.setRequestHandler(types.ListToolsRequestSchema, async () => ({
    tools: ['echo', 'slow'].map(name => ({ name, description: name, inputSchema: object })),
  }));
  server.setRequestHandler(types.CallToolRequestSchema, async request => {
    const { name, arguments: args = {} } = request.params;
    const text = String(args.text ?? '');
    if (name === 'slow') await new Promise(done => setTimeout(done, 1000 * args.seconds));
    return { content: [{ type: 'text', text }] };
  });
  return server;
}

if (mode === 'stdio') {
  const { StdioServerTransport } = await from('server/stdio.js');
  await build().connect(new StdioServerTransport());
} else {
  const sessions = new Map();
  const routes = mode === 'sse' ? await sse(sessions) : await streamable(sessions);
  http.createServer((req, res) => {
    const route = routes[`${req.method} ${new URL(req.url, 'http://localhost').pathname}`];
    if (route) return route(req, res);
    res.writeHead(404).end();
  }).listen(Number(port), '127.0.0.1');
}

async function sse(sessions) {
  const { SSEServerTransport } = await from('server/sse.js');
  return {
    'GET /sse': async (req, res) => {
      const transport = new SSEServerTransport('/messages', res);
      sessions.set(transport.sessionId, transport);
      res.on('close', () => sessions.delete(transport.sessionId));
      await build().connect(transport);
    },
    'POST /messages': async (req, res) => {
      const transport = sessions.get(new URL(req.url, 'http://localhost').searchParams.get('sessionId'));
      if (!transport) return res.writeHead(404).end('Session not found');
      await transport.handlePostMessage(req, res);
    },
  };
}

async function streamable(sessions) {
  const { StreamableHTTPServerTransport } = await from('server/streamableHttp.js');
  const handle = async (req, res) => {
    let transport = sessions.get(req.headers['mcp-session-id']);
    if (!transport && req.headers['mcp-session-id']) {
      res.writeHead(404, { 'Content-Type': 'application/json' });
      return res.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32001, message: 'Session not found' }, id: null }));
    }
    if (!transport) {
      transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: id => sessions.set(id, transport) });
      transport.onclose = () => sessions.delete(transport.sessionId);
      await build().connect(transport);
    }
    await transport.handleRequest(req, res);
  };
  return { 'POST /mcp': handle, 'GET /mcp': handle, 'DELETE /mcp': handle };
}
