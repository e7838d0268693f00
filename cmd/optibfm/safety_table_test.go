package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")

// TestSafetyTable_NamesExistingTests compares docs/safety.md with the tests.
func TestSafetyTable_NamesExistingTests(t *testing.T) {
	text, err := os.ReadFile("../../docs/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		tests.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllStringSubmatch(string(text), -1)
	for _, m := range named {
		if !strings.Contains(tests.String(), "func "+m[1]+"(") {
			t.Errorf("docs/safety.md names %s, which does not exist", m[1])
		}
	}
	if len(named) < 20 {
		t.Errorf("docs/safety.md names %d tests", len(named))
	}
}
