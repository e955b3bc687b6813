package upstream

import (
	"slices"
	"testing"
)

func TestChildEnvironment(t *testing.T) {
	own := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "LCX=1", "API_KEY=s3cret", "AWS_ID=a", "AWS_KEY=b", "AWS=c", "BRIDGE_ADMIN=off", "EMPTY="}
	base := []string{"HOME=/h", "LC_ALL=C", "PATH=/bin"}
	for _, test := range []struct {
		name    string
		entries []string
		want    []string // besides base
	}{
		{"nothing asked for", nil, nil},
		{"set", []string{"X=1", "Y=", "Z=a=b,c"}, []string{"X=1", "Y=", "Z=a=b,c"}},
		{"passed on", []string{"API_KEY", "NO_SUCH", "EMPTY"}, []string{"API_KEY=s3cret", "EMPTY="}},
		{"a family", []string{"AWS_*"}, []string{"AWS_ID=a", "AWS_KEY=b"}},
		{"all", []string{"*"}, own},
		{"the later one counts", []string{"PATH=/mine"}, []string{"PATH=/mine"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := childEnvironment(own, test.entries)
			if want := slices.Concat(base, test.want); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
