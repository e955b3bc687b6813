package translate

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// maxShown is the size in bytes up to which a content block that the client does not know is shown as its JSON.
const maxShown = 4 << 10

// block applies T1, T2 and T3 to a ContentBlock of a tool result or a prompt message.
func (p *payload) block(b []byte) []byte {
	kind := jsonrpc.Get(b, "type")
	switch {
	case is(kind, "text"), is(kind, "image"), is(kind, "resource"):
		return b
	case is(kind, "audio"):
		if p.client.Has(negotiate.AudioContent) {
			return b
		}
		if r := audioResource(b); r != nil {
			return r
		}
	case is(kind, "resource_link"):
		if p.client.Has(negotiate.ResourceLinks) {
			return b
		}
		return linkText(b)
	}
	return unknownText(b)
}

// samplingBlock does the same for the content of a SamplingMessage, which never holds resources: audio that the
// client does not know becomes text there (2024-11-05 schema, SamplingMessage).
func (p *payload) samplingBlock(b []byte) []byte {
	kind := jsonrpc.Get(b, "type")
	switch {
	case is(kind, "text"), is(kind, "image"):
		return b
	case is(kind, "audio"):
		if p.client.Has(negotiate.AudioContent) {
			return b
		}
	case is(kind, "tool_use"), is(kind, "tool_result"):
		if p.client.Has(negotiate.SamplingTools) {
			return b
		}
	case is(kind, "resource_link"):
		return linkText(b)
	}
	return unknownText(b)
}

// audioResource is T1: an AudioContent as an EmbeddedResource with the same base64. Nil if there is no base64.
func audioResource(b []byte) []byte {
	data := jsonrpc.Get(b, "data")
	text, ok := jsonrpc.String(data)
	if !ok {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	resource := jsonrpc.Set(nil, jsonrpc.Quote(fmt.Sprintf("urn:bridge:audio:%x", sum[:8])), "uri")
	if mime := jsonrpc.Get(b, "mimeType"); mime != nil {
		resource = jsonrpc.Set(resource, mime, "mimeType")
	}
	resource = jsonrpc.Set(resource, data, "blob")
	b = jsonrpc.Delete(jsonrpc.Delete(b, "data"), "mimeType")
	b = jsonrpc.Set(b, []byte(`"resource"`), "type")
	return jsonrpc.Set(b, resource, "resource")
}

// linkText is T2: a ResourceLink as text of title or name, URI, MIME type and description, one a line.
func linkText(b []byte) []byte {
	var lines []string
	add := func(member string) bool {
		s, ok := jsonrpc.String(jsonrpc.Get(b, member))
		if ok && s != "" {
			lines = append(lines, s)
		}
		return ok && s != ""
	}
	if !add("title") {
		add("name")
	}
	add("uri")
	add("mimeType")
	add("description")
	return textBlock(strings.Join(lines, "\n"), b)
}

// unknownText is T3: a block of a kind that the client does not know as text of its JSON.
func unknownText(b []byte) []byte {
	shown := compact(b)
	if len(shown) <= maxShown {
		return textBlock(string(shown), b)
	}
	kind, ok := jsonrpc.String(jsonrpc.Get(b, "type"))
	if !ok || len(kind) > 64 {
		kind = "unknown"
	}
	return textBlock(fmt.Sprintf("[content of type %s, %d bytes, which this client cannot show]", kind, len(b)), b)
}

// textBlock returns a TextContent with the annotations and _meta of the block it stands for, nil for none.
func textBlock(text string, from []byte) []byte {
	t := append(append([]byte(`{"type":"text","text":`), jsonrpc.Quote(text)...), '}')
	for _, name := range []string{"annotations", "_meta"} {
		if v := jsonrpc.Get(from, name); jsonrpc.IsObject(v) {
			t = jsonrpc.Set(t, v, name)
		}
	}
	return t
}
