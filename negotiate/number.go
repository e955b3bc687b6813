package negotiate

import (
	"strconv"
	"strings"
)

// Integers in headers are compared by value ("42.0" is 42, 2026-07-28 streamable-http, Server Validation), and
// numbers are never decoded to float64, which has no place for digits beyond 2^53. So a number is a sign, its
// significant digits and a power of ten.
type number struct {
	negative bool
	digits   string // without leading and trailing zeros; "" is zero
	exponent int    // the value is digits times ten to this
}

const (
	maxSafeInteger = "9007199254740991" // 2^53-1
	maxExponent    = 1 << 20            // larger ones are not read as numbers
)

// isNumber reports whether raw is a JSON number by its first character.
func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9')
}

// parseNumber reads s by the grammar of JSON numbers.
func parseNumber(s string) (n number, ok bool) {
	s, n.negative = strings.CutPrefix(s, "-")
	whole, s := cutDigits(s)
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return number{}, false
	}
	fraction := ""
	if rest, dot := strings.CutPrefix(s, "."); dot {
		if fraction, s = cutDigits(rest); fraction == "" {
			return number{}, false
		}
	}
	if s != "" {
		if n.exponent, ok = parseExponent(s); !ok {
			return number{}, false
		}
	}
	n.exponent -= len(fraction)
	n.digits = strings.TrimLeft(whole+fraction, "0")
	kept := strings.TrimRight(n.digits, "0")
	n.exponent += len(n.digits) - len(kept)
	n.digits = kept
	if n.digits == "" {
		return number{}, true
	}
	return n, true
}

// parseExponent reads the part of a JSON number from the letter e on.
func parseExponent(s string) (exp int, ok bool) {
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	digits, _ := strings.CutPrefix(strings.TrimPrefix(s, "+"), "-")
	if first, rest := cutDigits(digits); first == "" || rest != "" || strings.HasPrefix(s, "+-") {
		return 0, false
	}
	exp, err := strconv.Atoi(s)
	return exp, err == nil && -maxExponent <= exp && exp <= maxExponent
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}

// sameNumber reports whether a and b are JSON numbers of the same value.
func sameNumber(a, b string) bool {
	x, ok := parseNumber(a)
	if !ok {
		return false
	}
	y, ok := parseNumber(b)
	return ok && x == y
}

// integerText returns the decimal text of a JSON number that is an integer by value: 42 for "42.0"
// and "4.2e1". ok is false for a fraction and for more than a thousand trailing zeros, so that a few
// bytes do not become megabytes.
func integerText(s string) (text string, ok bool) {
	n, ok := parseNumber(s)
	if !ok || n.exponent < 0 || n.exponent > 1000 {
		return "", false
	}
	if n.digits == "" {
		return "0", true
	}
	if n.negative {
		text = "-"
	}
	return text + n.digits + strings.Repeat("0", n.exponent), true
}

// isSafe reports whether a decimal integer, as integerText writes it, is within 2^53-1 either way.
func isSafe(text string) bool {
	text = strings.TrimPrefix(text, "-")
	return len(text) < len(maxSafeInteger) || len(text) == len(maxSafeInteger) && text <= maxSafeInteger
}
