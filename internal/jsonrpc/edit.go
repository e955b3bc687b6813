package jsonrpc

// The functions of this file work on text that Scan has checked.

// Get returns the raw value at the path of member names below obj, or nil if there is none. Where a
// name occurs twice it returns the first. Names are compared after unescaping.
func Get(obj []byte, path ...string) []byte { panic("not built") }

// Members calls yield with the unescaped name and raw value of each member of obj, in order, until it returns false.
// It does nothing if obj is not an object.
func Members(obj []byte, yield func(name string, value []byte) bool) { panic("not built") }

// Elements calls yield with the raw value of each element of arr, in order, until it returns false.
func Elements(arr []byte, yield func(value []byte) bool) { panic("not built") }

// Set returns a copy of obj in which the member at path has value; members and objects on the way
// are added at the end where they are missing. All other bytes stay as they were. A nil obj counts as {}.
func Set(obj []byte, value []byte, path ...string) []byte { panic("not built") }

// Delete returns obj without the member at path, a copy if anything was removed. All duplicates of
// the last name go. The other bytes stay as they were.
func Delete(obj []byte, path ...string) []byte { panic("not built") }

// DeleteFunc returns obj without the members whose unescaped name drop reports, a copy if anything was removed.
func DeleteFunc(obj []byte, drop func(name string) bool) []byte { panic("not built") }

// String returns the Go string of a raw JSON string; ok is false if raw is not a string.
// Lone surrogates become U+FFFD.
func String(raw []byte) (s string, ok bool) { panic("not built") }

// Quote returns s as a raw JSON string, without escaping HTML. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte { panic("not built") }

// IsObject reports whether raw is an object by its first character.
func IsObject(raw []byte) bool { panic("not built") }

// IsNull reports whether raw is absent or null.
func IsNull(raw []byte) bool { panic("not built") }
