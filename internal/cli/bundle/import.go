package bundle

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/internal/registry"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

// ImportOptions describe the bundle that Import writes. Channels are written NAME or
// NAME:UNIT.
type ImportOptions struct {
	Out            string   // folder of the bundle, new or empty
	Name           string   // "" for the name of the imported folder
	Gamma          float64  // discount of the training; 0: unknown
	ObsChannels    []string // none where unknown
	ActionChannels []string
	Weights        string // Float32, Float16 or AutoWeights; "" for AutoWeights
	Licence        string // of the model; "" for that of its model card
	Revision       string // of the download; "" for that of the note of Hugging Face's program

	// Observations are an .npz file with obs [n, O] of the training data, for the task prior and
	// Cov B. A SavedModel has its own φ: without observations it gets no prior.
	Observations string

	// Backward is B as an ONNX model, for the import of a policy as one.
	Backward string

	NormZ bool // SavedModel or ONNX: it expects √d·z/‖z‖

	// SavedModel only.
	Signatures tflite.Signatures
	Library    string // folder of TensorFlow's library; "" for the install script's
}

// Values of ImportOptions.Weights: how the weights of a checkpoint's linear layers are stored.
const (
	AutoWeights = "auto" // Float16 if it changes no result by more than MaxRounding, otherwise Float32
	Float16     = "float16"
	Float32     = "float32"
)

// MaxRounding is the largest relative change of φ, π or ψ by float16 weights that AutoWeights
// accepts.
const MaxRounding = 5e-3

// Import makes a bundle of a checkpoint of a project that tflite/FORMAT.md lists, to which it adds
// Cov B, of a policy and B as ONNX models, or of a TensorFlow SavedModel; the last two are
// evaluated at random inputs.
func Import(out io.Writer, dir string, o ImportOptions) error {
	// A heap of few, large slices: collecting often costs little and keeps the peak low.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	o.Weights = cmp.Or(o.Weights, AutoWeights)
	if !slices.Contains([]string{AutoWeights, Float16, Float32}, o.Weights) {
		return fmt.Errorf("model import: --weights: unknown (%q); use %s, %s or %s", o.Weights, AutoWeights, Float16, Float32)
	}
	if _, err := os.Stat(filepath.Join(dir, tflite.SavedModelFileName)); err == nil {
		return o.importSavedModel(out, dir)
	}
	if filepath.Ext(dir) == ".onnx" {
		return o.importONNX(out, dir)
	}
	return o.importCheckpoint(out, dir)
}

// parseChannels reads channels: NAME or NAME:UNIT.
func parseChannels(words []string) []tflite.Channel {
	var all []tflite.Channel
	for _, word := range words {
		name, unit, _ := strings.Cut(word, ":")
		all = append(all, tflite.Channel{Name: name, Unit: unit})
	}
	return all
}

func (o ImportOptions) importCheckpoint(out io.Writer, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, tflite.CheckpointFileName)); err != nil {
		return fmt.Errorf("model import: %w; give a checkpoint (a folder with %s), a SavedModel (one with %s) "+
			"or POLICY.onnx; a bundle needs no import", err, tflite.CheckpointFileName, tflite.SavedModelFileName)
	}
	if o.Observations == "" {
		return errors.New("model import: --observations is missing; give an .npz file with obs [n, O], " +
			"observations of the training data (a SavedModel is a folder with " + tflite.SavedModelFileName + ")")
	}
	checkpoint, err := tflite.LoadDir(dir)
	if err != nil {
		return err
	}
	obs, err := readObservations(o.Observations, setup.NativeModel{Bundle: checkpoint})
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	options := tflite.ImportOptions{
		Name: o.Name, Gamma: o.Gamma,
		Observation: parseChannels(o.ObsChannels), Action: parseChannels(o.ActionChannels),
		Provenance: map[string]string{"checkpoint": dir, "observations": o.Observations},
	}
	o.addOrigin(options.Provenance, filepath.Join(dir, "model.safetensors"), checkpoint.Hash)
	b, rounding, err := o.write(dir, checkpoint, obs, options)
	if err != nil {
		return err
	}
	features := fmt.Sprintf("Cov B from %d observations", len(obs)/b.Dims().Obs)
	if checkpoint.HasCovariance() {
		features = "φ is B"
	}
	fmt.Fprintf(out, "%s: %s, %s\n", o.Out, b.Name, features)
	if rounding != "" {
		fmt.Fprintln(out, rounding)
	}
	reportOrigin(out, b.Provenance)
	reportGroups(out, b.Architecture)
	return o.addPrior(out)
}

// write writes the bundle with the weights of the options. rounding is a line about float16.
func (o ImportOptions) write(
	dir string, checkpoint *tflite.Bundle, obs []float32, options tflite.ImportOptions,
) (b *tflite.Bundle, rounding string, err error) {
	if o.Weights != Float32 {
		b, rounding, err = o.writeFloat16(dir, checkpoint, obs, options)
		if b != nil || err != nil {
			return b, rounding, err
		}
	}
	if err := tflite.Import(dir, obs, o.Out, options); err != nil {
		return nil, "", err
	}
	b, err = tflite.LoadDir(o.Out)
	return b, rounding, err
}

// writeFloat16 writes the bundle with float16 weights. b is nil if AutoWeights does not accept it:
// then it is removed.
func (o ImportOptions) writeFloat16(
	dir string, checkpoint *tflite.Bundle, obs []float32, options tflite.ImportOptions,
) (b *tflite.Bundle, rounding string, err error) {
	auto := o.Weights == AutoWeights
	options.Provenance = maps.Clone(options.Provenance)
	options.Provenance["weights"], options.Float16 = "rounded to float16", true
	err = tflite.Import(dir, obs, o.Out, options)
	if err != nil && auto {
		return nil, "float16: " + err.Error() + ": the weights stay float32", nil
	}
	if err != nil {
		return nil, "", err
	}
	if b, err = tflite.LoadDir(o.Out); err != nil {
		return nil, "", err
	}
	e, err := tflite.Difference(b, checkpoint, obs, roundingCases)
	if err != nil && !auto {
		err = fmt.Errorf("model import: float16: %w; use --weights %s", err, Float32)
		return nil, "", errors.Join(err, os.RemoveAll(o.Out))
	}
	if err != nil {
		return nil, "float16: " + err.Error() + ": the weights stay float32", os.RemoveAll(o.Out)
	}
	rounding = fmt.Sprintf("float16 changes φ by %.1e, π by %.1e, ψ by %.1e (relative, the largest of %d observations)",
		e.Phi, e.Action, e.Psi, e.Cases)
	if auto && !(e.Worst() <= MaxRounding) {
		return nil, fmt.Sprintf("%s, more than %.0e: the weights stay float32", rounding, MaxRounding), os.RemoveAll(o.Out)
	}
	if auto {
		rounding += fmt.Sprintf(", at most %.0e: the weights are float16 (--weights %s keeps them)", MaxRounding, Float32)
	}
	return b, rounding, nil
}

// roundingCases is the number of observations at which an import compares float16 with float32.
const roundingCases = 64

// reportGroups prints the groups of a model and where their values come from.
func reportGroups(out io.Writer, a tflite.Architecture) {
	if len(a.Groups) == 0 {
		return
	}
	fmt.Fprintf(out, "observation groups, which model.groups of a configuration assembles: %s\n", groupList(a))
	for _, g := range a.Groups {
		if !strings.HasPrefix(g.Name, "privileged") {
			continue
		}
		readers := strings.Join(readersOf(a, g.Name), ", ")
		if readers == "" {
			continue
		}
		fmt.Fprintf(out, "note: no sensor of a robot measures the group %s, but %s. A simulator delivers it; "+
			"on a robot, a driver must estimate it (docs/public-models.md)\n", g.Name, readers)
	}
}

// groupList names the groups with their sizes.
func groupList(a tflite.Architecture) string {
	var words []string
	for _, g := range a.Groups {
		words = append(words, fmt.Sprintf("%s %d", g.Name, g.Size))
	}
	return strings.Join(words, ", ")
}

// readersOf describes what needs a group.
func readersOf(a tflite.Architecture, group string) []string {
	var needs []string
	for _, n := range []struct {
		text   string
		inputs []string
	}{{"φ needs it", a.B.Inputs}, {"ψ needs it", a.F.Inputs}, {"π needs it", a.Actor.Inputs}} {
		if slices.Contains(n.inputs, group) {
			needs = append(needs, n.text)
		}
	}
	return needs
}

// addPrior adds a task prior to the imported bundle.
func (o ImportOptions) addPrior(out io.Writer) error {
	p := DefaultPriorOptions()
	p.Observations, p.Library = o.Observations, o.Library
	if err := AddPrior(out, o.Out, p); err != nil {
		return fmt.Errorf("%s is imported, but has no task prior: %w", o.Out, err)
	}
	return nil
}

// readObservations reads the observations of an .npz file, [n, O]: see tflite.Observations.
func readObservations(path string, m setup.Model) ([]float32, error) {
	archive, err := npz.ReadFile(path)
	if err != nil {
		return nil, err
	}
	obs, _, err := tflite.Observations(archive, m.Dims().Obs, setup.Groups(m))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return obs, nil
}

// probeCandidates is the number of candidates of an import's test searches.
const probeCandidates = 16

func (o ImportOptions) importSavedModel(out io.Writer, dir string) error {
	saved := tflite.SavedModel{
		Dir: dir, Name: o.Name, Signatures: o.Signatures, NormZ: o.NormZ, Gamma: o.Gamma,
		Observation: parseChannels(o.ObsChannels), Action: parseChannels(o.ActionChannels),
	}
	if saved.Name == "" {
		saved.Name = filepath.Base(filepath.Clean(dir))
	}
	var err error
	if saved.Hash, err = tflite.HashSavedModel(dir); err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	scaleFree, err := o.probe(&saved)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	written, err := tflite.SaveSavedModel(o.Out, saved)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	d := written.Sizes
	fmt.Fprintf(out, "%s: %s, observation %d, action %d, d %d, ensemble %d\n",
		o.Out, written.Name, d.Obs, d.Action, d.Latent, d.Ensemble)
	if !scaleFree {
		fmt.Fprintln(out, "note: π changes with the norm of z, which depends on the labels; "+
			"if it was trained with ‖z‖ = √d, import it with --norm-z")
	}
	if o.Observations == "" {
		return nil
	}
	return o.addPrior(out)
}

// probe evaluates a SavedModel at random inputs, sets its sizes and provenance, and reports whether
// its policy ignores the norm of z.
func (o ImportOptions) probe(saved *tflite.SavedModel) (scaleFree bool, err error) {
	file, err := withLibrary(o.Library)
	if err != nil {
		return false, err
	}
	model, err := setup.SavedModel{SavedModel: saved}.Open(file, registry.SavedModelUse{
		Candidates: probeCandidates, OnCPU: true,
	})
	if err != nil {
		return false, err
	}
	scaleFree, err = tflite.Probe(model)
	saved.Sizes = model.Dims()
	saved.Provenance = map[string]string{"savedmodel": saved.Dir}
	if v, ok := model.(registry.Versioned); ok {
		saved.Provenance[registry.EvaluatorOfSavedModels().Section] = v.Version()
	}
	if err := errors.Join(err, setup.CloseModels(model)); err != nil {
		return false, fmt.Errorf("%s: %w", saved.Dir, err)
	}
	return scaleFree, nil
}

// withLibrary returns the default configuration with the folder of the library that evaluates
// SavedModels, unless that is "".
func withLibrary(folder string) (configs.File, error) {
	if folder == "" {
		return configs.Default(), nil
	}
	s := registry.EvaluatorOfSavedModels()
	if s.Missing != nil {
		return configs.File{}, s.Missing
	}
	return configs.Parse("--library", []byte("version: 1"), "model."+s.Section+".library="+folder)
}
