//go:build !race

package telemetry_test

const raced = false
