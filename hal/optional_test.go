package hal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"

	"optibfm/hal/haltest"
	"optibfm/internal/fatal"
)

// TestOptional_ListsEveryInterface reads the source of package hal.
func TestOptional_ListsEveryInterface(t *testing.T) {
	files, err := filepath.Glob("*.go")
	fatal.If(t, err)
	want := []string{"Device", "Robot"}
	for _, o := range haltest.Optional() {
		want = append(want, o.Name())
	}
	var found []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		fatal.If(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, ok := spec.Type.(*ast.InterfaceType); ok {
					found = append(found, spec.Name.Name)
				}
			}
			return true
		})
	}
	slices.Sort(want)
	if slices.Sort(found); !slices.Equal(found, want) {
		t.Errorf("package hal has the interfaces %v, haltest.Optional and the two required ones are %v", found, want)
	}
}
