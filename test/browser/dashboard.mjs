// Drives the dashboard as an operator would, with clients behind it that lie about their names.
import { mkdir } from "node:fs/promises";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";

const { values: args } = parseArgs({
  options: { base: { type: "string" }, admin: { type: "string" }, chromium: { type: "string" }, screenshots: { type: "string" } },
});

let passed = 0;
let failed = 0;

function check(name, ok, detail = "") {
  if (ok) passed++;
  else failed++;
  console.log(`${ok ? "ok  " : "FAIL"} ${name}${ok || !detail ? "" : `: ${detail}`}`);
}

// legacyClient opens a legacy stream, initializes under a name and calls a tool or two.
async function legacyClient(name, version = "1.0.0", protocolVersion = "2024-11-05") {
  const abort = new AbortController();
  const stream = await fetch(`${args.base}/sse`, { headers: { Accept: "text/event-stream" }, signal: abort.signal });
  const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  async function event(match) {
    for (;;) {
      const end = buffer.indexOf("\n\n");
      if (end >= 0) {
        const text = buffer.slice(0, end);
        buffer = buffer.slice(end + 2);
        if (match(text)) return text;
        continue;
      }
      const { value, done } = await reader.read();
      if (done) throw new Error("the stream ended");
      buffer += value;
    }
  }
  const endpoint = (await event((e) => e.startsWith("event: endpoint"))).match(/data: ?(.*)/)[1];
  const url = new URL(endpoint, `${args.base}/sse`);
  const post = (message) =>
    fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  await post({ id: 1, method: "initialize", params: { protocolVersion, capabilities: {}, clientInfo: { name, version } } });
  await event((e) => e.includes('"id":1'));
  await post({ method: "notifications/initialized" });
  await post({ id: 2, method: "tools/list" });
  await event((e) => e.includes('"id":2'));
  abort.abort();
}

async function streamableClient(name) {
  const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  const message = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name, version: "2" } } };
  const resp = await fetch(`${args.base}/mcp`, { method: "POST", headers, body: JSON.stringify(message) });
  await resp.text();
}

const hostile = {
  script: `<script>window.pwned=1</script><img src=x onerror="window.pwned=1">`,
  rtl: "abc\u202egpj.exe\u2066\u200f",
  long: "L".repeat(10 * 1024),
  formula: `=HYPERLINK("http://evil.test")`,
};
await legacyClient("reporting-tool", "0.9.1");
await legacyClient("desk-agent", "3.2.0", "2025-11-25");
for (const name of Object.values(hostile)) await legacyClient(name);
await streamableClient("new-agent");

await mkdir(args.screenshots, { recursive: true });
const browser = await chromium.launch({ executablePath: args.chromium, args: ["--no-sandbox", "--disable-gpu"] });
const origin = new URL(args.admin).origin;
const noise = [];
const elsewhere = [];

async function open(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") noise.push(m.text());
  });
  page.on("pageerror", (e) => noise.push(String(e)));
  page.on("request", (r) => {
    if (new URL(r.url()).origin !== origin) elsewhere.push(r.url());
  });
  await page.goto(`${args.admin}/admin/`, { waitUntil: "networkidle" });
  return page;
}

// says waits for an element to have a text. (waitForFunction would evaluate a string, which the page's policy forbids.)
const says = (selector, text) => page.locator(selector, { hasText: text }).waitFor();

const api = async (path, options) => {
  const resp = await fetch(args.admin + path, options);
  return { status: resp.status, body: await resp.json() };
};

let page;
try {
  page = await open({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  const report = (await api("/admin/report")).body;
  check("verdict is the report's", (await page.textContent(".verdict .word")).trim() === report.verdict.toUpperCase());
  const rows = await page.$$eval("#identities tbody tr th > bdi", (list) => list.map((e) => e.textContent));
  check("a row for each identity", rows.length === report.identities.length, `${rows.length} of ${report.identities.length}`);
  check("labels are the report's", JSON.stringify([...rows].sort()) === JSON.stringify(report.identities.map((i) => i.label || "(no name given)").sort()), rows.join(" | "));
  const classes = await page.$$eval("#identities tbody .class", (list) => list.map((e) => e.textContent));
  check("classes are the report's", JSON.stringify(classes) === JSON.stringify(report.identities.map((i) => i.class)), classes.join(" "));
  check("a hostile name is text", rows.some((r) => r.includes("<script>")) && !(await page.evaluate(() => window.pwned)));
  check("nothing of a name became an element", (await page.$$("#identities img, #identities script")).length === 0);
  check("no direction marks in the page", !(await page.content()).match(/[\u202a-\u202e\u2066-\u2069\u200f]/));
  check("a name of 10 KiB is cut", rows.every((r) => r.length <= 160), Math.max(...rows.map((r) => r.length)));
  check("the page does not overflow", await page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
  await page.screenshot({ path: `${args.screenshots}/light.png`, fullPage: true });

  await page.fill("#filter", "reporting");
  check("filter", (await page.$$eval("#identities tbody tr", (l) => l.filter((r) => !r.hidden).length)) === 1);
  await page.fill("#filter", "");

  const csv = await (await fetch(`${args.admin}/admin/report?output=csv`)).text();
  check("CSV guards formulas", !/(^|,)"?=HYPERLINK/m.test(csv), csv);

  // A change by keyboard alone.
  await page.focus("#to");
  await page.keyboard.type("warn");
  await page.keyboard.press("Tab");
  await page.keyboard.type("dashboard test");
  await page.keyboard.press("Enter");
  await says("#apply", /^Yes/);
  await page.keyboard.press("Enter");
  await says("#diff", /stage is warn/);
  let stage = (await api("/admin/stage")).body.state;
  check("stage changed with the reason", stage.stage === "warn" && stage.reason === "dashboard test", JSON.stringify(stage));
  check("the page shows the new stage", (await page.textContent(".stages .now b")) === "warn");
  const history = (await api("/admin/history")).body.records;
  check("the change is in the audit log", history.length === 1 && history[0].to === "warn" && history[0].origin === "api", JSON.stringify(history));

  // A step that the readiness check refuses, then forced.
  await page.selectOption("#to", "brownout");
  await page.click("#preview");
  await says("#diff", /At brownout these would be refused/);
  await page.selectOption("#to", "closed");
  await page.fill("#reason", "too early");
  await page.click("#preview");
  await says("#diff", /At closed these would be refused/);
  const diff = await page.textContent("#diff");
  check("the preview names who is refused", diff.includes("reporting-tool") && diff.includes("<script>"), diff);
  await page.click("#apply");
  await says("#apply", /^Yes/);
  await page.click("#apply");
  await page.locator("#diff.bad").waitFor();
  check("a failed check is refused and said", /not ready/.test(await page.textContent("#diff")), await page.textContent("#diff"));
  stage = (await api("/admin/stage")).body.state;
  check("nothing changed", stage.stage === "warn", stage.stage);
  const expected = noise.findIndex((n) => n.includes("409"));
  if (expected >= 0) noise.splice(expected, 1); // the browser's own line for the refusal above
  await page.check("#force");
  await page.click("#apply");
  await says("#apply", /^Yes/);
  await page.click("#apply");
  await says("#diff", /stage is closed/);
  const last = (await api("/admin/history")).body.records.at(-1);
  check("a forced step is recorded with the report's digest", last.forced === true && /^[0-9a-f]{64}$/.test(last.digest ?? ""), JSON.stringify(last));

  // What another site or a careless script may try.
  const version = (await api("/admin/stage")).body.state.version;
  const put = (headers, body) => fetch(`${args.admin}/admin/stage`, { method: "PUT", headers, body: JSON.stringify(body) });
  check("a form cannot change the stage", (await put({ "Content-Type": "text/plain" }, { version, stage: "open" })).status === 415);
  check("another origin cannot change the stage", (await put({ "Content-Type": "application/json", Origin: "https://evil.test" }, { version, stage: "open" })).status === 403);
  check("a stale change is refused", (await put({ "Content-Type": "application/json" }, { version: version - 1, stage: "open" })).status === 409);

  const dark = await open({ viewport: { width: 1280, height: 900 }, colorScheme: "dark" });
  await dark.screenshot({ path: `${args.screenshots}/dark.png`, fullPage: true });
  const phone = await open({ viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
  check("the page does not overflow a phone", await phone.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth));
  await phone.screenshot({ path: `${args.screenshots}/phone.png`, fullPage: true });

  const plain = await open({ javaScriptEnabled: false });
  check("readable without script", (await plain.textContent(".verdict .word")).length > 0);
  check("no console errors", noise.length === 0, noise.join(" | "));
  check("no request leaves the origin", elsewhere.length === 0, elsewhere.join(" "));
} catch (err) {
  check("the run itself", false, err.stack);
} finally {
  await browser.close();
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed ? 1 : 0;
