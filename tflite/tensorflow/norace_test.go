//go:build tensorflow && !race

package tensorflow_test

// raced reports whether this test was built with the race detector.
const raced = false
