package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"optibfm/internal/npz"
	"optibfm/internal/setup"
	"optibfm/tflite"
	"optibfm/tflite/tensorflow"
)

// importOptions are the flags of `model import`.
type importOptions struct {
	observations, out           string
	name                        string
	gamma                       float64
	obsChannels, actionChannels []string

	// of a SavedModel
	signatures tflite.Signatures
	normZ      bool
	library    string
}

func newModelImport() *cobra.Command {
	o := importOptions{signatures: tflite.DefaultSignatures()}
	cmd := &cobra.Command{
		Use:   "import CHECKPOINT|SAVEDMODEL --out BUNDLE",
		Short: "Make a bundle of a metamotivo FB checkpoint or of a TensorFlow SavedModel",
		Long: `A checkpoint gets Cov B of --observations, which it needs. A SavedModel (a folder
with saved_model.pb) needs a program built with -tags tensorflow: its signatures
are compared with what a model has, it is evaluated at random inputs, and its
files are copied. docs/tensorflow.md says how to export one.`,
		Example: `  optibfm model import checkpoints/walker --observations obs.npz --out models/walker
  # obs.npz holds obs [n, O], observations of the training data; n of 10,000 or more
  optibfm model import exported/walker --out models/walker --gamma 0.98`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if isSavedModel(args[0]) {
				return o.importSavedModel(cmd.OutOrStdout(), args[0])
			}
			return o.importCheckpoint(cmd.OutOrStdout(), args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "", "the bundle's directory, new or empty")
	f.StringVar(&o.observations, "observations", "", "checkpoint: an .npz file with obs [n, O], observations of the training data")
	f.StringVar(&o.name, "name", "", "the model's name (default: the directory that is imported)")
	f.Float64Var(&o.gamma, "gamma", 0, "the discount it was trained with (0: not known)")
	f.StringSliceVar(&o.obsChannels, "obs-channels", nil, "names of the observation's elements, with units where they have one: x:m,v:m/s")
	f.StringSliceVar(&o.actionChannels, "action-channels", nil, "names of the action's elements, likewise")
	f.StringVar(&o.signatures.Phi, "phi", o.signatures.Phi, "SavedModel: the signature that gives φ")
	f.StringVar(&o.signatures.Policy, "policy", o.signatures.Policy, "SavedModel: the signature that gives π")
	f.StringVar(&o.signatures.Psi, "psi", o.signatures.Psi, "SavedModel: the signature that gives ψ")
	f.BoolVar(&o.normZ, "norm-z", false, "SavedModel: give it √d·z/‖z‖ instead of z")
	f.StringVar(&o.library, "library", "", "SavedModel: the folder of TensorFlow's library (default: where the install script puts it)")
	requireFlags(cmd, "out")
	return cmd
}

func isSavedModel(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, tflite.SavedModelFileName))
	return err == nil
}

// channelsOf reads names of channels: NAME or NAME:UNIT.
func channelsOf(words []string) []tflite.Channel {
	var all []tflite.Channel
	for _, word := range words {
		name, unit, _ := strings.Cut(word, ":")
		all = append(all, tflite.Channel{Name: name, Unit: unit})
	}
	return all
}

func (o importOptions) importCheckpoint(out io.Writer, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, tflite.CheckpointFileName)); err != nil {
		return fmt.Errorf("model import: %w: a checkpoint is a folder with %s, a SavedModel one with %s; a bundle needs no import",
			err, tflite.CheckpointFileName, tflite.SavedModelFileName)
	}
	if o.observations == "" {
		return errors.New("model import: --observations is missing: give an .npz file with obs [n, O], observations of the training data; a SavedModel is a folder with " + tflite.SavedModelFileName)
	}
	obs, err := readObservations(dir, o.observations)
	if err != nil {
		return err
	}
	options := tflite.ImportOptions{Name: o.name, Gamma: o.gamma, Observation: channelsOf(o.obsChannels), Action: channelsOf(o.actionChannels),
		Provenance: map[string]string{"checkpoint": dir, "observations": o.observations}}
	if err := tflite.Import(dir, obs, o.out, options); err != nil {
		return err
	}
	b, err := tflite.LoadDir(o.out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s, Cov B from %d observations\n", o.out, b.Name, len(obs)/b.Dims().Obs)
	return nil
}

func readObservations(checkpoint, path string) ([]float32, error) {
	b, err := tflite.LoadDir(checkpoint)
	if err != nil {
		return nil, err
	}
	archive, err := npz.ReadFile(path)
	if err != nil {
		return nil, err
	}
	obs, err := archive.Shaped("obs", -1, b.Dims().Obs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return obs.Float32s()
}

// probed is how many candidates the searches of an import have.
const probed = 16

func (o importOptions) importSavedModel(out io.Writer, dir string) error {
	if o.observations != "" {
		return fmt.Errorf("model import: --observations is for a checkpoint, %s is a SavedModel, whose φ is its own: leave the flag out", dir)
	}
	saved := tflite.SavedModel{
		Dir: dir, Name: o.name, Signatures: o.signatures, NormZ: o.normZ, Gamma: o.gamma,
		Observation: channelsOf(o.obsChannels), Action: channelsOf(o.actionChannels),
	}
	if saved.Name == "" {
		saved.Name = filepath.Base(filepath.Clean(dir))
	}
	var err error
	if saved.Hash, err = tflite.HashSavedModel(dir); err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	config := tensorflow.DefaultConfig()
	config.Device, config.Library = setup.CPUDevice, o.library
	model, err := tensorflow.LoadSavedModel(saved, config, probed)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	scaleFree, err := tflite.Probe(model)
	saved.Sizes = model.Dims()
	saved.Provenance = map[string]string{"savedmodel": dir, "tensorflow": model.Report().Version}
	if err := errors.Join(err, model.Close()); err != nil {
		return fmt.Errorf("model import: %s: %w", dir, err)
	}
	written, err := tflite.SaveSavedModel(o.out, saved)
	if err != nil {
		return fmt.Errorf("model import: %w", err)
	}
	d := written.Sizes
	fmt.Fprintf(out, "%s: %s, observation %d, action %d, d %d, ensemble %d\n", o.out, written.Name, d.Obs, d.Action, d.Latent, d.Ensemble)
	if !scaleFree {
		fmt.Fprintf(out, "note: π changes with the norm of z, which labels determine: if it was trained with ‖z‖ = √d, import it with --norm-z\n")
	}
	return nil
}
