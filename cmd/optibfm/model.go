package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/npz"
	"optibfm/internal/setup"
	"optibfm/tflite"
)

// newModelCommand makes `optibfm model`: what can be done with a model without
// a robot.
func newModelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Import, inspect and check behaviour foundation models",
		Long: `A model is the directory of a bundle (bfm.json and model.safetensors, or bfm.json
and a TensorFlow SavedModel), the directory of a metamotivo FB checkpoint
(config.json and model.safetensors), or embedded:rover, the model within this
program. "model import" makes a bundle of a checkpoint, to which it adds Cov B
(φ needs it), or of a SavedModel.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newModelImport(), newModelInspect(), newModelCheck(), newModelEval(), newModelBackend())
	return cmd
}

func newModelInspect() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect BUNDLE",
		Short: "Print what a model says about itself",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := setup.OpenModel(args[0])
			if err != nil {
				return err
			}
			return printModel(cmd.OutOrStdout(), m)
		},
	}
}

func printModel(w io.Writer, m setup.Model) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	d := m.Dims()
	row("name", "%s", m.Title())
	row("sha256", "%s", m.Fingerprint())
	row("sizes", "observation %d, action %d, d %d, ensemble %d", d.Obs, d.Action, d.Latent, d.Ensemble)
	switch m := m.(type) {
	case setup.NativeModel:
		rowsOfNetworks(row, m.Bundle)
		rowsOfDescription(row, m.Gamma, m.Observation, m.Action, m.Provenance)
	case setup.SavedModel:
		row("evaluated by", "TensorFlow only, from the SavedModel %s", m.Dir)
		row("signatures", "φ %s, π %s, ψ %s", m.Signatures.Phi, m.Signatures.Policy, m.Signatures.Psi)
		row("normalises", "z %t", m.NormZ)
		rowsOfDescription(row, m.Gamma, m.Observation, m.Action, m.Provenance)
	}
	return table.Flush()
}

// rowsOfNetworks tells what is known of networks whose architecture is.
func rowsOfNetworks(row func(name, format string, args ...any), b *tflite.Bundle) {
	a := b.Architecture
	row("F", "hidden %d, hidden layers %d, embedding layers %d", a.F.Hidden, a.F.HiddenLayers, a.F.EmbeddingLayers)
	row("B", "hidden %d, hidden layers %d, normalised %t", a.B.Hidden, a.B.HiddenLayers, a.B.Norm)
	row("actor", "hidden %d, hidden layers %d, embedding layers %d", a.Actor.Hidden, a.Actor.HiddenLayers, a.Actor.EmbeddingLayers)
	row("parameters", "%d", parameters(a))
	row("normalises", "observations %t, z %t", a.NormObs, a.NormZ)
	row("layernorm eps", "%g", b.LayerNormEps)
	row("Cov B", "%s", map[bool]string{true: "there", false: "missing: add it with optibfm model import"}[b.HasCovariance()])
}

// rowsOfDescription tells what any bundle may say of itself.
func rowsOfDescription(row func(name, format string, args ...any), gamma float64, observation, action []tflite.Channel, provenance map[string]string) {
	if gamma > 0 {
		row("gamma", "%g", gamma)
	}
	for _, side := range []struct {
		name     string
		channels []tflite.Channel
	}{{"observation", observation}, {"action", action}} {
		if len(side.channels) > 0 {
			row(side.name, "%s", channelList(side.channels))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(provenance)) {
		row(key, "%s", provenance[key])
	}
}

// parameters counts the numbers of the networks.
func parameters(a tflite.Architecture) int {
	total := 0
	for _, shape := range a.Tensors() {
		n := 1
		for _, d := range shape {
			n *= d
		}
		total += n
	}
	return total
}

func channelList(channels []tflite.Channel) string {
	var words []string
	for _, c := range channels {
		word := c.Name
		if c.Unit != "" {
			word += " [" + c.Unit + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func newModelCheck() *cobra.Command {
	var tolerance float64
	cmd := &cobra.Command{
		Use:   "check BUNDLE vectors.npz",
		Short: "Compare a model's results with those of its training framework",
		Long: `Evaluates the cases of vectors.npz and prints the largest relative error of phi,
action and psi: max|x - y| / max|y| over the elements of a case, the largest of
all cases. Fails where one is above the tolerance.

vectors.npz holds obs [n, O], z [n, d] and the expected phi [n, d],
action [n, A] and psi [E, n, d] (at that action). With cov_b [d, d] in the
file, phi is computed with it, unless the model is a SavedModel.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := setup.OpenModel(args[0])
			if err != nil {
				return err
			}
			vectors, err := npz.ReadFile(args[1])
			if err != nil {
				return err
			}
			e, err := setup.CheckModel(m, vectors)
			if err != nil {
				return fmt.Errorf("%s: %w", args[1], err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "phi     %.2e\naction  %.2e\npsi     %.2e\ncases   %d, tolerance %.2e\n", e.Phi, e.Action, e.Psi, e.Cases, tolerance)
			if !(e.Worst() <= tolerance) {
				return fmt.Errorf("%s: the largest relative error is above the tolerance (%.2e, %.2e): the export or the architecture differs", args[0], e.Worst(), tolerance)
			}
			return nil
		},
	}
	cmd.Flags().Float64Var(&tolerance, "tolerance", 1e-4, "the largest relative error that passes")
	return cmd
}

// evaluation is what `model eval` prints.
type evaluation struct {
	Phi    []float64   `json:"phi,omitempty"` // φ(s), [d]; absent where the model has no Cov B
	Action []float32   `json:"action"`        // π_z(s) or the given action, [A]
	Psi    [][]float32 `json:"psi"`           // ψ of each ensemble member, [E][d]
}

func newModelEval() *cobra.Command {
	var obs, z, action string
	cmd := &cobra.Command{
		Use:   "eval BUNDLE --obs '[...]' --z '[...]'",
		Short: "Evaluate φ, π and ψ at one observation, as JSON",
		Long: `Prints {"phi": [d], "action": [A], "psi": [E][d]}. Without --action, psi is at the
policy's action. Each argument is a JSON array, or @FILE with one in it.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := setup.OpenModel(args[0])
			if err != nil {
				return err
			}
			var e evaluation
			var point []float32
			var task []float64
			if err := errors.Join(readArray("obs", obs, &point), readArray("z", z, &task), readArray("action", action, &e.Action)); err != nil {
				return err
			}
			if err := e.evaluate(m, point, task); err != nil {
				return err
			}
			if e.Phi == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), tflite.ErrNoCovariance)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(e)
		},
	}
	cmd.Flags().StringVar(&obs, "obs", "", "the observation, [O]")
	cmd.Flags().StringVar(&z, "z", "", "the task embedding, [d], of any norm")
	cmd.Flags().StringVar(&action, "action", "", "the action for psi, [A] (default: the policy's)")
	requireFlags(cmd, "obs", "z")
	return cmd
}

func readArray[T float32 | float64](flag, text string, into *[]T) error {
	if text == "" {
		return nil
	}
	raw := []byte(text)
	if path, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if raw, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("--%s: %w", flag, err)
		}
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("--%s: not an array of numbers (%w): give for instance '[0.5, -1]'", flag, err)
	}
	return nil
}

func (e *evaluation) evaluate(m setup.Model, obs []float32, z []float64) (err error) {
	n, err := m.Evaluator(configs.Default())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setup.CloseModels(n)) }()
	d := n.Dims()
	e.Phi = make([]float64, d.Latent)
	switch err := n.Phi(e.Phi, obs); {
	case errors.Is(err, tflite.ErrNoCovariance):
		e.Phi = nil
	case err != nil:
		return err
	}
	if e.Action == nil {
		e.Action = make([]float32, d.Action)
		if err := n.Act(e.Action, obs, z); err != nil {
			return err
		}
	}
	psi := make([]float32, d.Ensemble*d.Latent)
	if err := n.Psi(psi, obs, e.Action, z); err != nil {
		return err
	}
	e.Psi = slices.Collect(slices.Chunk(psi, d.Latent))
	return nil
}

// requireFlags marks flags without which a command has nothing to do.
func requireFlags(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist: a mistake in this file
		}
	}
}
