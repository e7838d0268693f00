package setup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"optibfm/configs"
	"optibfm/controller"
	"optibfm/internal/registry"
	"optibfm/internal/safefile"
	"optibfm/rtloop"
	"optibfm/tflite"
)

// Model is an opened model: a NativeModel, which this program evaluates, or a SavedModel, which a
// registered backend evaluates.
type Model interface {
	Dims() tflite.Dims
	Title() string       // name for display
	Fingerprint() string // hash of the model, as in the log
	// Channels returns the channels of the training data, none if they are not known.
	Channels() (observation, action []tflite.Channel)
	// Prior returns the task prior, nil if the model has none.
	Prior() *tflite.Prior

	// Fits returns an error for a configuration that the model cannot serve.
	Fits(configs.File) error
	// Evaluator returns φ, π and ψ for one thread, such as the control thread.
	Evaluator(configs.File) (tflite.Evaluator, error)
	// Searcher returns the model that evaluates the candidates of the planner. A missing backend or
	// device is an error with posture strict; otherwise the search falls back, and note is a line
	// for the posture, also printed on standard error.
	Searcher(f configs.File, processors int) (m tflite.Model, note string, err error)
	// Caveat describes how the model weakens the real-time guarantee; empty if it does not.
	Caveat() string
}

// OpenModel opens a model in the program or the model in a directory.
func OpenModel(bundle string) (Model, error) {
	return openModel(bundle, func(files fs.FS) (*tflite.Bundle, *os.File, error) {
		if files != nil {
			b, err := tflite.Load(files)
			return b, nil, err
		}
		b, err := tflite.LoadDir(bundle)
		return b, nil, err
	})
}

// LoadSharedModel is OpenModel with the weights of a native model in a file for OpenSharedModel. It
// calls packs as tflite.LoadShared does.
func LoadSharedModel(bundle string, packs func()) (Model, error) {
	return openModel(bundle, func(files fs.FS) (*tflite.Bundle, *os.File, error) {
		if files == nil {
			files = safefile.Dir(bundle)
		}
		return tflite.LoadShared(files, bundle, packs)
	})
}

// openModel loads a model with load. embedded are the files of a model in the program, nil for one
// in a directory.
func openModel(bundle string, load func(embedded fs.FS) (*tflite.Bundle, *os.File, error)) (Model, error) {
	embedded, ok := registry.Model(bundle)
	if !ok {
		if _, err := os.Stat(bundle); err != nil {
			return nil, err
		}
	}
	b, weights, err := load(embedded)
	if errors.Is(err, tflite.ErrSavedModel) {
		m, err := tflite.LoadSavedModel(bundle)
		return SavedModel{m}, err
	}
	return NativeModel{b, weights}, err
}

// OpenSharedModel opens the model in a file of LoadSharedModel, or the model in a directory without
// a file.
func OpenSharedModel(weights *os.File, bundle string) (Model, error) {
	if weights == nil {
		return OpenModel(bundle)
	}
	defer weights.Close()
	b, err := tflite.OpenShared(weights)
	return NativeModel{Bundle: b}, err
}

// ConfiguredModel opens the model of a configuration. The error for a missing one has a fix.
func ConfiguredModel(f configs.File) (Model, error) { return configuredModel(f, OpenModel) }

func configuredModel(f configs.File, open func(bundle string) (Model, error)) (Model, error) {
	if err := checkBundle(f.Model.Bundle); err != nil {
		return nil, err
	}
	m, err := open(f.Model.Bundle)
	if err != nil {
		return nil, fmt.Errorf("model.bundle: %w", err)
	}
	return m, nil
}

// CloseModels closes the models that have a method Close: it ends the goroutines of a native search
// and the sessions of TensorFlow.
func CloseModels(models ...tflite.Model) error {
	var errs []error
	for _, m := range models {
		if c, ok := m.(io.Closer); ok {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// NativeModel is a forward-backward bundle or checkpoint.
type NativeModel struct {
	*tflite.Bundle
	Weights *os.File // of LoadSharedModel; nil: not shared
}

func (m NativeModel) Title() string       { return m.Name }
func (m NativeModel) Fingerprint() string { return m.Hash }
func (m NativeModel) Channels() (observation, action []tflite.Channel) {
	return m.Observation, m.Action
}

func (m NativeModel) Prior() *tflite.Prior { return m.Bundle.Prior }

// withoutPsi are the strategies that evaluate no ψ.
var withoutPsi = []string{controller.Thompson, controller.Fixed, controller.Random}

// Fits implements Model.
func (m NativeModel) Fits(f configs.File) error {
	strategy := f.Controller.Strategy
	if !m.Architecture.HasForward() && !slices.Contains(withoutPsi, strategy) {
		return fmt.Errorf("controller.strategy: %s compares candidates by ψ, but the model has no F "+
			"(model.bundle: %s); use %s", strategy, f.Model.Bundle, controller.Thompson)
	}
	return nil
}

func (m NativeModel) Caveat() string { return "" }

func (m NativeModel) Evaluator(configs.File) (tflite.Evaluator, error) { return m.NewNetwork() }

// Searcher implements Model. ucb_gradient needs the gradients of the native network; the other
// strategies without candidates search nothing.
func (m NativeModel) Searcher(f configs.File, processors int) (tflite.Model, string, error) {
	w := registry.Workload{Candidates: f.Controller.NumCandidates(), Processors: processors}
	native := func() (tflite.Model, error) {
		return registry.OpenBackend(registry.BackendNative, struct{}{}, m.Bundle, w)
	}
	if f.Model.Backend == registry.BackendNative || w.Candidates == 0 {
		searcher, err := native()
		return searcher, "", err
	}
	searcher, missing := registry.OpenBackend(f.Model.Backend, f.Model.Chosen(), m.Bundle, w)
	if missing == nil {
		return searcher, "", nil
	}
	note, err := insteadOf(f, "model.backend", missing, "the search is native")
	if err != nil {
		return nil, "", err
	}
	searcher, err = native()
	return searcher, note, err
}

// insteadOf returns the note about a fallback, or an error with posture strict. key asked for what
// is missing.
func insteadOf(f configs.File, key string, missing error, instead string) (note string, err error) {
	if f.Loop.Posture == rtloop.Strict {
		return "", fmt.Errorf("%s: %w (with loop.posture: warn %s)", key, missing, instead)
	}
	note = fmt.Sprintf("%s: not granted, %s: %v", key, instead, missing)
	warn(note)
	return note, nil
}
