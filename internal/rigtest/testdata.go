package rigtest

import (
	"path/filepath"
	"runtime"
)

// testdata returns the path of a file in this package's testdata folder.
func testdata(name string) string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "testdata", name)
}
