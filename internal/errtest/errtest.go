// Package errtest compares errors in tests.
package errtest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Of returns the error of a call with another result.
func Of[T any](_ T, err error) error { return err }

// Nil reports an error. about, here and below, names the case; it may be missing.
func Nil(t testing.TB, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s%v", prefix(about), err)
	}
}

// NotNil reports a missing error.
func NotNil(t testing.TB, err error, about ...any) {
	t.Helper()
	if err == nil {
		t.Errorf("%sno error", prefix(about))
	}
}

// Is reports an error that does not wrap kind.
func Is(t testing.TB, err, kind error, about ...any) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%sthe error is %q, want %q", prefix(about), text(err), text(kind))
	}
}

// Contains reports an error without a text.
func Contains(t testing.TB, err error, part string, about ...any) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("%sthe error is %q, want one with %q", prefix(about), text(err), part)
	}
}

func prefix(about []any) string {
	if len(about) == 0 {
		return ""
	}
	return fmt.Sprint(about...) + ": "
}

func text(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}
