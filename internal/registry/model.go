package registry

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

type model struct {
	name  string
	files fs.FS
}

var models []model

// AddModel registers a model bundle in the program. Its name, for model.bundle, begins with
// "embedded:".
func AddModel(name string, bundle fs.FS) {
	if !strings.HasPrefix(name, "embedded:") {
		panic(fmt.Sprintf("optibfm: register model: bad name (%q); begin with embedded:", name))
	}
	if _, ok := Model(name); ok {
		panic(fmt.Sprintf("optibfm: register model: %s is registered already", name))
	}
	models = append(models, model{name, bundle})
}

// Model returns the bundle of a name.
func Model(name string) (bundle fs.FS, ok bool) {
	i := slices.IndexFunc(models, func(m model) bool { return m.name == name })
	if i < 0 {
		return nil, false
	}
	return models[i].files, true
}

// Models lists the names.
func Models() (names []string) {
	for _, m := range models {
		names = append(names, m.name)
	}
	return names
}
