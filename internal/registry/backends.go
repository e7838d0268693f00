package registry

import (
	"errors"
	"fmt"
	"io"

	"optibfm/internal/sections"
	"optibfm/tflite"
)

// BackendKind is the kind of backends of models: the sections of model, chosen by model.backend.
type BackendKind struct{}

// BackendNative is the backend of every program: package tflite, on the CPU.
const BackendNative = "native"

var backendList = sections.NewList("backend", "bundle", "groups", "warm_start", "backend")

// List implements Kind.
func (BackendKind) List() *sections.List { return backendList }

// ChosenBy implements Kind.
func (BackendKind) ChosenBy() string { return "backend" }

// OmitsDefault implements Kind.
func (BackendKind) OmitsDefault() bool { return false }

// Workload is the largest work of a backend.
type Workload struct {
	Candidates int // of a search; at least 1, except for native
	Processors int // that a search may use, at least 1
}

// Rounding is implemented by sections of backends whose scores differ from those of native by more
// than 1e-4. ScoreTolerance is the largest relative difference that is not a fault.
type Rounding interface{ ScoreTolerance() float64 }

var backends = map[string]func(any, *tflite.Bundle, Workload) (tflite.Model, error){}

func init() {
	AddBackend(BackendNative, "", struct{}{}, func(_ struct{}, b *tflite.Bundle, w Workload) (tflite.Model, error) {
		return b.NewNetwork(tflite.Workers(w.Processors))
	})
}

// AddBackend registers a backend. open prepares it to search with a bundle.
func AddBackend[C any](
	name, doc string, defaults C, open func(c C, bundle *tflite.Bundle, w Workload) (tflite.Model, error),
) {
	backendList.Add(sections.Section{Name: name, Doc: doc, Default: defaults})
	backends[name] = func(section any, b *tflite.Bundle, w Workload) (tflite.Model, error) {
		return open(section.(C), b, w)
	}
}

// OpenBackend opens a backend. It refuses a model whose sizes differ from the bundle's.
func OpenBackend(name string, section any, b *tflite.Bundle, w Workload) (tflite.Model, error) {
	open, ok := backends[name]
	if !ok {
		return nil, fmt.Errorf("unknown (%q); use one of %v", name, backendList.Names())
	}
	m, err := open(section, b, w)
	if err != nil { // m may be a nil pointer in an interface
		return nil, err
	}
	if m.Dims() != b.Dims() {
		err := fmt.Errorf("%s: the sizes of its model are not those of the bundle (%+v, not %+v); correct the backend",
			name, m.Dims(), b.Dims())
		if c, ok := m.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
		return nil, err
	}
	return m, nil
}

// SavedModelUse is how a SavedModel is evaluated.
type SavedModelUse struct {
	Candidates int  // of a search, at least 1
	OnCPU      bool // also if the configuration names a GPU
	OneThread  bool // all operations run on the caller's thread
}

// Versioned is implemented by evaluators of SavedModels that know the version of their library.
type Versioned interface{ Version() string }

// SavedModels is the evaluation of SavedModels by a backend. Section is the name of its section.
type SavedModels struct {
	Section  string
	Missing  error // why this program cannot evaluate them, nil if it can
	NoDevice error // errors of Open wrap it if the device of the configuration is missing
	Open     func(section any, m tflite.SavedModel, u SavedModelUse) (tflite.Evaluator, error)
}

var savedModels = SavedModels{Missing: errors.New("this program has no backend for it; use one with TensorFlow")}

// AddSavedModels registers the backend that evaluates SavedModels. A program has at most one.
func AddSavedModels(s SavedModels) {
	if savedModels.Open != nil {
		panic(fmt.Sprintf("optibfm: register SavedModels: %s evaluates them already", savedModels.Section))
	}
	savedModels = s
}

// EvaluatorOfSavedModels returns the evaluator that AddSavedModels registered. Without a
// registration, only Missing is set.
func EvaluatorOfSavedModels() SavedModels { return savedModels }
