package jsonrpc

// methods holds the names of all published revisions (schema.ts, 2024-11-05 to 2026-07-28), so
// that reading one of them allocates nothing.
var methods = table(
	"completion/complete",
	"elicitation/create",
	"initialize",
	"logging/setLevel",
	"notifications/cancelled",
	"notifications/elicitation/complete",
	"notifications/initialized",
	"notifications/message",
	"notifications/progress",
	"notifications/prompts/list_changed",
	"notifications/resources/list_changed",
	"notifications/resources/updated",
	"notifications/roots/list_changed",
	"notifications/subscriptions/acknowledged",
	"notifications/tasks/status",
	"notifications/tools/list_changed",
	"ping",
	"prompts/get",
	"prompts/list",
	"resources/list",
	"resources/read",
	"resources/subscribe",
	"resources/templates/list",
	"resources/unsubscribe",
	"roots/list",
	"sampling/createMessage",
	"server/discover",
	"subscriptions/listen",
	"tasks/cancel",
	"tasks/get",
	"tasks/list",
	"tasks/result",
	"tasks/update",
	"tools/call",
	"tools/list",
)

func table(names ...string) map[string]string {
	t := make(map[string]string, len(names))
	for _, name := range names {
		t[name] = name
	}
	return t
}

// members are the names of members that most messages have (schema.ts, 2024-11-05 to 2026-07-28), so that going through those
// allocates nothing.
var members = table(
	"_meta", "annotations", "arguments", "arrayContents", "cacheScope", "capabilities", "clientInfo", "completions", "content", "contents", "context", "cursor", "data",
	"default", "description", "elicitation", "enum", "extensions", "form", "id", "inputRequests", "inputResponses", "inputSchema", "instructions", "isError",
	"items", "level", "listChanged", "logger", "logging", "message", "method", "mimeType", "mode", "name", "nextCursor", "notifications",
	"outputSchema", "params", "progress", "progressToken", "prompts", "properties", "protocolVersion", "requestState", "requested",
	"required", "resource", "resources", "result", "resultType", "roots", "sampling", "schema", "serverInfo", "structuredContent", "subscribe",
	"tasks", "text", "title", "tools", "total", "ttlMs", "type", "uri", "url", "version", "x-mcp-header",
	"io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/logLevel",
	"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/related-task", "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId",
)

// methodName returns b as a string.
func methodName(b []byte) string { return known(methods, b) }

func known(names map[string]string, b []byte) string {
	if name, ok := names[string(b)]; ok {
		return name
	}
	return string(b)
}
