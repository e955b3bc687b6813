// Package schematest checks messages in tests against the published JSON schemas of MCP.
//
// The schemas are not part of this module. The environment variable MCP_SCHEMA_DIR names a folder with
// REVISION/schema.json in it; without it the checks are skipped and the test's log says so.
package schematest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/mcp-dualstack/bridge/exchange"
	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
	"github.com/mcp-dualstack/bridge/negotiate"
)

// Variable is the environment variable that names the folder with the schemas.
const Variable = "MCP_SCHEMA_DIR"

// Schemas checks against the schemas of all revisions. Methods may be called concurrently. The nil value checks nothing.
type Schemas struct {
	dir string

	mu       sync.Mutex
	books    map[negotiate.Revision]*book
	resolved map[definition]*jsonschema.Resolved
}

type definition struct {
	revision negotiate.Revision
	name     string
}

// A book is the schema file of one revision.
type book struct {
	root    *jsonschema.Schema
	prefix  string            // of a reference to a definition
	methods map[string]string // definition of the request or notification of each method
}

// Load returns the schemas, nil if there are none, which it says in the test's log.
func Load(t testing.TB) *Schemas {
	t.Helper()
	if os.Getenv(Variable) == "" {
		t.Log(Variable + " is not set: messages are NOT checked against the schemas")
		return nil
	}
	return load()
}

// load makes the one Schemas of the process: to read and resolve a schema takes longer than most tests.
var load = sync.OnceValue(func() *Schemas {
	return &Schemas{
		dir: os.Getenv(Variable), books: make(map[negotiate.Revision]*book), resolved: make(map[definition]*jsonschema.Resolved),
	}
})

// Request reports, as an error of the test, a request or notification that is not what r says of its method.
// A method that r does not define is such an error too.
func (s *Schemas) Request(t testing.TB, r negotiate.Revision, req exchange.Request) {
	t.Helper()
	if s == nil {
		return
	}
	b, err := s.book(r)
	if err != nil {
		t.Errorf("%v", err)
		return
	}
	name, ok := b.methods[req.Method]
	if !ok {
		t.Errorf("%s is not a method of %v", req.Method, r)
		return
	}
	msg := jsonrpc.AppendRequest(nil, []byte("1"), req.Method, req.Params)
	if strings.HasPrefix(req.Method, "notifications/") {
		msg = jsonrpc.AppendNotification(nil, req.Method, req.Params)
	}
	s.check(t, r, name, msg)
}

// Response reports, as an error of the test, a response to the method that is not what r says.
func (s *Schemas) Response(t testing.TB, r negotiate.Revision, method string, resp exchange.Response) {
	t.Helper()
	if s == nil {
		return
	}
	if resp.Error != nil {
		name := "JSONRPCError"
		if r.Has(negotiate.TitledEnums) { // 2025-11-25 gave it another name
			name = "JSONRPCErrorResponse"
		}
		s.check(t, r, name, jsonrpc.AppendError(nil, []byte("1"), resp.Error))
		return
	}
	s.check(t, r, resultName(method, resp.Result), resp.Result)
}

// resultName returns the definition of a method's result.
func resultName(method string, result []byte) string {
	if kind, _ := jsonrpc.String(jsonrpc.Get(result, "resultType")); kind == "input_required" {
		return "InputRequiredResult"
	}
	switch method {
	case "initialize":
		return "InitializeResult"
	case "server/discover":
		return "DiscoverResult"
	case "tools/list":
		return "ListToolsResult"
	case "tools/call":
		return "CallToolResult"
	case "prompts/list":
		return "ListPromptsResult"
	case "prompts/get":
		return "GetPromptResult"
	case "resources/list":
		return "ListResourcesResult"
	case "resources/templates/list":
		return "ListResourceTemplatesResult"
	case "resources/read":
		return "ReadResourceResult"
	case "completion/complete":
		return "CompleteResult"
	case "subscriptions/listen":
		return "SubscriptionsListenResult"
	case "elicitation/create":
		return "ElicitResult"
	case "sampling/createMessage":
		return "CreateMessageResult"
	case "roots/list":
		return "ListRootsResult"
	}
	return "Result"
}

func (s *Schemas) check(t testing.TB, r negotiate.Revision, name string, raw []byte) {
	t.Helper()
	if err := s.Check(r, name, raw); err != nil {
		t.Errorf("not a %s of %v: %.2000s\n%v", name, r, raw, err)
	}
}

// Check returns what is wrong with raw as the definition of that name in the schema of r.
func (s *Schemas) Check(r negotiate.Revision, name string, raw []byte) error {
	schema, err := s.definition(definition{r, name})
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return schema.Validate(v)
}

// definition returns a definition ready to validate.
func (s *Schemas) definition(d definition) (*jsonschema.Resolved, error) {
	b, err := s.book(d.revision)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have := s.resolved[d]; have != nil {
		return have, nil
	}
	root := *b.root
	root.Ref = b.prefix + d.name
	resolved, err := root.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("%s of %v: %w", d.name, d.revision, err)
	}
	s.resolved[d] = resolved
	return resolved, nil
}

// book reads the schema file of a revision once.
func (s *Schemas) book(r negotiate.Revision) (*book, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.books[r]; b != nil {
		return b, nil
	}
	text, err := os.ReadFile(filepath.Join(s.dir, r.String(), "schema.json"))
	if err != nil {
		return nil, err
	}
	b := &book{root: new(jsonschema.Schema), prefix: "#/$defs/", methods: make(map[string]string)}
	if err := json.Unmarshal(text, b.root); err != nil {
		return nil, fmt.Errorf("schema of %v: %w", r, err)
	}
	definitions := b.root.Defs
	if definitions == nil {
		b.prefix, definitions = "#/definitions/", b.root.Definitions
	}
	for _, name := range slices.Sorted(maps.Keys(definitions)) {
		method := definitions[name].Properties["method"]
		if method != nil && method.Const != nil {
			b.methods[fmt.Sprint(*method.Const)] = name
		}
	}
	s.books[r] = b
	return b, nil
}
