package translate

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-dualstack/bridge/internal/jsonrpc"
)

func secret(c byte) []byte { return bytes.Repeat([]byte{c}, minSecret) }

func ring(t testing.TB, secrets ...[]byte) *keyring {
	t.Helper()
	r, err := newKeyring(secrets)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fullToken() *token {
	t := &token{
		kind: kindSuspend, exp: time.Unix(1_800_000_000, 0), principal: hashPrincipal("issuer|subject"), method: "tools/call",
		digest: salientDigest([]byte(`{"name":"deploy","arguments":{}}`)), upstream: "orders", owner: "replica-0a1b2c3d4e5f", round: 3,
	}
	copy(t.call[:], "0123456789abcdef")
	return t
}

func TestTokenRoundTrip(t *testing.T) {
	for _, kind := range []tokenKind{kindSuspend, kindWrap, kindURL, kindJournal} {
		want := fullToken()
		want.kind, want.inner = kind, []byte(`"state\u0041"`)
		r := ring(t, secret('a'))
		got, err := r.open(r.seal(want))
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

func TestFirstKeySealsAllOpen(t *testing.T) {
	before, after, other := ring(t, secret('a')), ring(t, secret('b'), secret('a')), ring(t, secret('c'))
	old := before.seal(fullToken())
	if _, err := after.open(old); err != nil {
		t.Errorf("after the rotation: %v", err)
	}
	if _, err := before.open(after.seal(fullToken())); err != errForged {
		t.Errorf("a token of the new key opens with the old one: %v", err)
	}
	if _, err := other.open(old); err != errForged {
		t.Errorf("a token opens with another key: %v", err)
	}
	if _, err := ring(t).open(ring(t).seal(fullToken())); err != errForged {
		t.Errorf("random keys of two processes open each other's: %v", err)
	}
}

func TestSecretsHaveALength(t *testing.T) {
	_, err := newKeyring([][]byte{secret('a'), []byte("short"), make([]byte, 31)})
	if err == nil || !strings.Contains(err.Error(), "secret 2") || !strings.Contains(err.Error(), "secret 3") {
		t.Errorf("got %v, want both", err)
	}
	if err := (SuspendOptions{Secrets: [][]byte{nil}, TTL: -1, MaxRounds: -1}).Check(); err == nil {
		t.Error("Check finds nothing")
	}
	if err := (SuspendOptions{}).Check(); err != nil {
		t.Error(err)
	}
}

// A token with everything in it stays small (translation.md 7.2).
func TestTokenSize(t *testing.T) {
	if n := len(ring(t, secret('a')).seal(fullToken())); n > 318 {
		t.Errorf("got %d bytes", n)
	}
}

// Every bit of a token counts, and so does every byte that is missing.
func TestAlteredTokens(t *testing.T) {
	r := ring(t, secret('a'))
	text := r.seal(fullToken())
	raw, err := base64.RawURLEncoding.DecodeString(text[len(tokenPrefix):])
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		for bit := range 8 {
			raw[i] ^= 1 << bit
			if _, err := r.open(tokenPrefix + base64.RawURLEncoding.EncodeToString(raw)); err == nil {
				t.Fatalf("opens with bit %d of byte %d changed", bit, i)
			}
			raw[i] ^= 1 << bit
		}
		if _, err := r.open(tokenPrefix + base64.RawURLEncoding.EncodeToString(raw[:i])); err == nil {
			t.Fatalf("opens with %d bytes", i)
		}
	}
	for _, s := range []string{"", "b1.", "b2." + text[3:], text + "=", text + "A", " " + text, text + "\n", text[:9] + "\r\n" + text[9:], strings.ToUpper(text)} {
		if _, err := r.open(s); err == nil {
			t.Errorf("%q opens", s)
		}
	}
}

// sealedBefore is fullToken as an earlier process sealed it: what clients hold survives a new build of the bridge.
const sealedBefore = "b1.T45c7OHdGpOR_FqyPiJDpp_sU54On1m0wXZSYuAEBdzbYqy172AIa0SeL5qdnUSo5h1fBEVDIUJJTxpOV1JPvip_7xfTq7ZpOP2XkvtEALG5" +
	"geJhwNyBe52ddBxNatdhFHpdjpYWpDKr_0PkXzkWJVmUuWIUWFbfHROJX83N-N04OXNz"

func TestTokenOfAnEarlierProcess(t *testing.T) {
	got, err := ring(t, secret('a')).open(sealedBefore)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", fullToken()) {
		t.Errorf("got %+v, want %+v", got, fullToken())
	}
}

func FuzzTokenOpen(f *testing.F) {
	r := ring(f, secret('a'))
	const genuine = sealedBefore // the same in every process that fuzzes
	f.Add(genuine)
	f.Add(genuine[:len(genuine)-1])
	f.Add("b1." + strings.Repeat("A", 150))
	f.Add(ring(f, secret('b')).seal(fullToken()))
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := r.open(text); err == nil && text != genuine {
			t.Errorf("%q opens as %+v", text, got)
		}
	})
}

// What readToken is given was sealed by a key of ours, yet it must not fail on anything.
func FuzzReadToken(f *testing.F) {
	f.Add(fullToken().append(nil))
	f.Add([]byte{1, 1})
	f.Fuzz(func(t *testing.T, plain []byte) {
		got, ok := readToken(plain)
		if !ok {
			return
		}
		again, ok := readToken(got.append(nil))
		if !ok || fmt.Sprintf("%+v", again) != fmt.Sprintf("%+v", got) {
			t.Errorf("got %+v, then %+v", got, again)
		}
	})
}

func TestDigest(t *testing.T) {
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"order", `{"a":1,"b":{"c":[1,2],"d":null}}`, `{"b":{"d":null,"c":[1,2]},"a":1}`, true},
		{"blanks", `{"a":[1,{"b":"x"}]}`, " {\t\"a\" : [ 1 , { \"b\" : \"x\" } ]\r\n} ", true},
		{"escapes", `{"a":"\u0041\/\u00fc\n"}`, "{\"\\u0061\":\"A/ü\\u000a\"}", true},
		{"surrogate pair", `{"a":"\ud83d\ude00"}`, `{"a":"😀"}`, true},
		{"lone surrogates", `{"a":"\ud800"}`, `{"a":"\ud801"}`, false},
		{"lone surrogate and U+FFFD", `{"a":"\ud800"}`, "{\"a\":\"\ufffd\"}", false},
		{"number text", `{"a":1.0}`, `{"a":1}`, false},
		{"number and string", `{"a":1}`, `{"a":"1"}`, false},
		{"order of elements", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"members of one name", `{"x":{"a":1,"a":2}}`, `{"x":{"a":2,"a":1}}`, false},
		{"what is not salient", `{"a":1}`, `{"_meta":{"x":1},"a":1,"inputResponses":{},"requestState":"s"}`, true},
		{"the same names deeper", `{"a":{}}`, `{"a":{"_meta":1}}`, false},
		{"nothing", ``, `{}`, true},
		{"empty string and null", `{"a":""}`, `{"a":null}`, false},
		{"name into value", `{"a":"b","c":1}`, `{"a":"b\",\"c\":1"}`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := salientDigest([]byte(tc.a)) == salientDigest([]byte(tc.b)); got != tc.same {
				t.Errorf("same: got %v, want %v", got, tc.same)
			}
		})
	}
}

func FuzzCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[{"y":"\u0041","x":null},true]}`, `[]`, `"\ud800"`, `{"":{"":{}}}`, `1e3`, ` [ 1 , 2 ] `} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		msg := []byte(`{"jsonrpc":"2.0","id":1,"result":` + s + `}`)
		m, refusal := jsonrpc.Scan(msg)
		if refusal != nil {
			return
		}
		once := appendCanonical(nil, m.Result)
		if twice := appendCanonical(nil, once); !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q, then %q", s, once, twice)
		}
		if _, refusal := jsonrpc.Scan(append(append([]byte(`{"jsonrpc":"2.0","id":1,"result":`), once...), '}')); refusal != nil {
			t.Errorf("%q becomes %q, which is no JSON", s, once)
		}
	})
}

func BenchmarkTokenSeal(b *testing.B) {
	r, t := ring(b, secret('a')), fullToken()
	b.ReportAllocs()
	for b.Loop() {
		r.seal(t)
	}
}

func BenchmarkTokenOpen(b *testing.B) {
	r := ring(b, secret('a'))
	text := r.seal(fullToken())
	b.ReportAllocs()
	b.ReportMetric(float64(len(text)), "bytes")
	for b.Loop() {
		if _, err := r.open(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20} {
		params := []byte(`{"name":"deploy","arguments":{"z":[` + strings.Repeat(`{"k":"value","a":1.0},`, size/22) + `1]}}`)
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(params)))
			b.ReportAllocs()
			for b.Loop() {
				salientDigest(params)
			}
		})
	}
}
