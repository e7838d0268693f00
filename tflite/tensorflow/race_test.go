//go:build tensorflow && race

package tensorflow_test

// raced tells whether this test was built with the race detector.
const raced = true
