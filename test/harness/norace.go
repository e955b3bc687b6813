//go:build !race

package harness

// RaceEnabled says whether the tests, and so the programs they build, have the race detector.
const RaceEnabled = false
