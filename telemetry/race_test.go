//go:build race

package telemetry_test

// raced says that the tests run under the race detector, where what they do many times costs ten times as much.
const raced = true
