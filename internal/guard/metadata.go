package guard

import (
	"encoding/json"
	"net/http"
)

// WellKnown is the path that the path of a resource follows to name its metadata document (RFC 9728, section 3.1).
const WellKnown = "/.well-known/oauth-protected-resource"

// Metadata are the members of a metadata document (RFC 9728, section 2) that say how to get a token for a resource.
type Metadata struct {
	Resource string   `json:"resource"` // URL
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported,omitempty"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name,omitempty"`
}

// ServeMetadata answers with m. It is the same for everybody and may be kept for a while.
func ServeMetadata(w http.ResponseWriter, m Metadata) {
	m.Methods = []string{"header"}
	body, err := json.Marshal(m)
	if err != nil {
		panic("guard: strings have no JSON form: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "max-age=300")
	_, _ = w.Write(append(body, '\n')) // nobody to tell: the client went away
}
