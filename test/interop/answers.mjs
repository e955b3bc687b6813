// Reads the JSON-RPC responses out of an HTTP response as it arrives: one JSON body, or the events of
// a stream. say gets, for each, {id, ok, code, revision, supported}: the code of an error, the revision
// of an initialize result, the revisions of a server/discover result; and {endpoint} for the event that
// opens a legacy stream.
import { StringDecoder } from 'node:string_decoder';

export function answerReader(contentType, say) {
  const text = new StringDecoder('utf8');
  if (/^text\/event-stream/.test(contentType)) return eventReader(text, say);
  let body = '';
  return {
    write: (chunk) => { body += text.write(chunk); },
    end: () => { if (/^application\/json/.test(contentType)) responses(body, say); },
  };
}

function eventReader(text, say) {
  let rest = '';
  return {
    write: (chunk) => {
      rest += text.write(chunk).replace(/\r\n/g, '\n');
      let end;
      while ((end = rest.indexOf('\n\n')) >= 0) {
        event(rest.slice(0, end), say);
        rest = rest.slice(end + 2);
      }
    },
    end: () => {},
  };
}

function event(block, say) {
  const field = (name) => block.split('\n').filter((l) => l.startsWith(`${name}:`)).map((l) => l.slice(name.length + 1).replace(/^ /, '')).join('\n');
  if (field('event') === 'endpoint') say({ endpoint: field('data') });
  else if (field('data')) responses(field('data'), say);
}

function responses(json, say) {
  let all;
  try { all = [JSON.parse(json)].flat(); } catch { return; }
  for (const m of all) {
    if (m === null || typeof m !== 'object' || 'method' in m || !('id' in m)) continue;
    say({ id: m.id, ok: 'result' in m, code: m.error?.code, revision: m.result?.protocolVersion, supported: m.result?.supportedVersions });
  }
}
