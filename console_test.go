package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	bridge "github.com/mcp-dualstack/bridge"
)

// An openAPI is as much of the document as the tests go by.
type openAPI struct {
	Components struct {
		Schemas   map[string]json.RawMessage
		Responses map[string]json.RawMessage
	}
	Paths map[string]map[string]operation
}

type operation struct {
	Parameters []struct {
		Name     string
		In       string
		Required bool
	}
	RequestBody *struct {
		Content map[string]media
	}
	Responses map[string]json.RawMessage
}

type media struct{ Schema json.RawMessage }

// console is the handler of the operator's listener, and the document it serves.
func console(t *testing.T, o *bridge.Options) (http.Handler, *bridge.Bridge, *openAPI) {
	t.Helper()
	b, err := bridge.New(&server{}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	h := b.Admin()
	var doc openAPI
	if o == nil || o.AdminTokenFile == "" {
		if err := json.Unmarshal(operate(h, http.MethodGet, "/admin/openapi.json", "", nil).Body.Bytes(), &doc); err != nil {
			t.Fatal(err)
		}
	}
	return h, b, &doc
}

// operate makes a request of the operator's listener. A body is JSON unless the header says otherwise.
func operate(h http.Handler, method, path, body string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "127.0.0.1:8421", "127.0.0.1:40000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header {
		r.Header[name] = values
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// resolved compiles a schema of the document.
func (d *openAPI) resolved(t *testing.T, schema json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	text := fmt.Appendf(nil, `{"allOf":[%s],"$defs":`, schema)
	defs, err := json.Marshal(d.Components.Schemas)
	if err != nil {
		t.Fatal(err)
	}
	text = append(append(text, defs...), '}')
	text = bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/"))
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// responseSchema returns the JSON schema of an answer, nil if it has none.
func (d *openAPI) responseSchema(t *testing.T, op operation, status int) json.RawMessage {
	t.Helper()
	text, ok := op.Responses[fmt.Sprint(status)]
	if !ok {
		text, ok = op.Responses["default"]
	}
	if !ok {
		t.Fatalf("status %d is not documented", status)
	}
	var resp struct {
		Ref     string `json:"$ref"`
		Content map[string]media
	}
	if err := json.Unmarshal(text, &resp); err != nil {
		t.Fatal(err)
	}
	if resp.Ref != "" {
		ref := d.Components.Responses[strings.TrimPrefix(resp.Ref, "#/components/responses/")]
		if err := json.Unmarshal(ref, &resp); err != nil {
			t.Fatal(err)
		}
	}
	return resp.Content["application/json"].Schema
}

// Every path of the document is served with its methods and no other, and every answer is as the document says.
func TestConsoleIsAsDocumented(t *testing.T) {
	h, b, doc := console(t, nil)
	version := func() int64 { return b.Retirement().State().Version }
	bodies := map[string]func() []string{
		"put /admin/stage": func() []string {
			return []string{
				fmt.Sprintf(`{"version":%d,"stage":"announce","reason":"r"}`, version()), `{"version":99,"stage":"warn"}`, `{"version":1,"stage":"never"}`, `{"stage":"warn"}`, `{`, `{"version":1,"surprise":1}`,
				fmt.Sprintf(`{"version":%d,"stage":"closed"}`, version()+1), fmt.Sprintf(`{"version":%d,"stage":"closed","force":true}`, version()+1),
			}
		},
		"post /admin/undo": func() []string {
			return []string{fmt.Sprintf(`{"version":%d,"reason":"r"}`, version()), `{"version":99}`, `{}`}
		},
		"post /admin/exemptions": func() []string {
			return []string{`{"id":"x","until":"2099-01-01T00:00:00Z","owner":"o","reason":"r"}`, `{"id":"x"}`, `[]`}
		},
	}
	queries := map[string][]string{
		"get /admin/report": {
			"", "?stage=closed", "?stage=never", "?simulate=7d", "?simulate=x", "?output=json", "?output=text", "?output=csv", "?output=prom", "?output=junit", "?output=pdf",
		},
		"get /admin/stage/preview": {"?stage=closed", "?stage=warn", "?stage=", ""},
		"get /admin/history":       {"", "?verify=true"},
		"delete /admin/exemptions": {"?id=x", "?id=nobody", ""},
		"delete /admin/ledger":     {"?id=nobody", ""},
		"get /admin/assets/{file}": {},
	}
	for path, methods := range doc.Paths {
		target := strings.Replace(path, "{file}", "page.css", 1)
		for _, method := range []string{"get", "put", "post", "delete", "patch"} {
			op, documented := methods[method]
			name := method + " " + path
			t.Run(name, func(t *testing.T) {
				if !documented {
					if w := operate(h, strings.ToUpper(method), target, "", nil); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
						t.Errorf("got %d, want 405 with Allow", w.Code)
					}
					return
				}
				asked := []string{""}
				if bodies[name] != nil {
					asked = bodies[name]()
				}
				for _, query := range append([]string(nil), orDefault(queries[name], "")...) {
					for _, body := range asked {
						w := operate(h, strings.ToUpper(method), target+query, body, nil)
						if w.Code == http.StatusNotFound && len(queries[name]) == 0 || w.Code == http.StatusMethodNotAllowed || w.Code >= 500 && path != "/readyz" {
							t.Errorf("%s %s: got %d %s", query, body, w.Code, w.Body)
						}
						schema := doc.responseSchema(t, op, w.Code)
						if schema == nil || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
							continue
						}
						var v any
						if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
							t.Errorf("%s %s: %v in %s", query, body, err, w.Body)
							continue
						}
						if err := doc.resolved(t, schema).Validate(v); err != nil {
							t.Errorf("%s %s: %d %s: %v", query, body, w.Code, w.Body, err)
						}
					}
				}
			})
		}
	}
	if w := operate(h, http.MethodGet, "/admin/nothing", "", nil); w.Code != http.StatusNotFound {
		t.Errorf("a path that is not documented: got %d", w.Code)
	}
	if w := operate(h, http.MethodGet, "/", "", nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/admin/" {
		t.Errorf("the root: got %d to %q, want the dashboard", w.Code, w.Header().Get("Location"))
	}
}

func orDefault(list []string, d string) []string {
	if len(list) == 0 {
		return []string{d}
	}
	return list
}

// Who has no token sees nothing but the health; a browser may send it as a password; another site can do nothing.
func TestConsoleIsGuarded(t *testing.T) {
	const token = "0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, _, _ := console(t, &bridge.Options{AdminTokenFile: file})
	_, _, doc := console(t, nil)
	bearer := http.Header{"Authorization": {"Bearer " + token}}
	var open []string
	for path, methods := range doc.Paths {
		for method := range methods {
			target := strings.Replace(path, "{file}", "page.css", 1)
			w := operate(h, strings.ToUpper(method), target, "", nil)
			if w.Code != http.StatusUnauthorized {
				open = append(open, path)
				continue
			}
			if c := w.Header().Get("WWW-Authenticate"); !strings.Contains(c, "Basic") || !strings.Contains(c, "Bearer") {
				t.Errorf("%s: got the challenge %q, want one for browsers and one for programs", path, c)
			}
			if w := operate(h, strings.ToUpper(method), target, "", bearer); w.Code == http.StatusUnauthorized {
				t.Errorf("%s: refused with the token", path)
			}
		}
	}
	slices.Sort(open)
	if want := []string{"/healthz", "/readyz"}; !slices.Equal(open, want) {
		t.Errorf("open to everybody: %v, want %v", open, want)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("anybody", token)
	if w := operate(h, http.MethodGet, "/admin/", "", http.Header{"Authorization": r.Header["Authorization"]}); w.Code != http.StatusOK {
		t.Errorf("as a password: got %d", w.Code)
	}
	for name, header := range map[string]http.Header{
		"another origin": {"Origin": {"https://evil.test"}, "Authorization": bearer["Authorization"]},
		"a form":         {"Content-Type": {"text/plain"}, "Authorization": bearer["Authorization"]},
		"a wrong token":  {"Authorization": {"Bearer " + strings.Repeat("x", 32)}},
	} {
		if w := operate(h, http.MethodPut, "/admin/stage", `{"version":0,"stage":"warn"}`, header); w.Code != http.StatusForbidden && w.Code != http.StatusUnsupportedMediaType && w.Code != http.StatusUnauthorized &&
			(bridge.LegacyBuilt || w.Code != http.StatusConflict) {
			t.Errorf("%s: got %d", name, w.Code)
		}
	}
}

// Where the configuration decides, the API says so.
func TestConsoleOfFixedRoutes(t *testing.T) {
	h, _, _ := console(t, &bridge.Options{LegacyOff: true})
	w := operate(h, http.MethodPut, "/admin/stage", `{"version":0,"stage":"warn"}`, nil)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `"fixed"`) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	page, err := io.ReadAll(operate(h, http.MethodGet, "/admin/", "", nil).Body)
	if err != nil || !bytes.Contains(page, []byte("disabled")) || !bytes.Contains(page, []byte("whatever the stage says")) {
		t.Errorf("the page does not say why the controls are off: %v", err)
	}
}
