// Package fatal ends tests that cannot continue.
package fatal

import (
	"errors"
	"testing"
)

// If ends a test unless all errors are nil.
func If(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
