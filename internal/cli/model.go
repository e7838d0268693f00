package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"optibfm/internal/cli/bundle"
	"optibfm/tflite"
)

func newModelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "model",
		Short: "Import, print and check behaviour foundation models",
		Long: `A model is one of

  a bundle      a folder with bfm.json and model.safetensors or a SavedModel
  a checkpoint  a folder of metamotivo, BFM-Zero, UFO, TD-JEPA or FB-MEBE:
                config.json, model.safetensors and, if there is one,
                init_kwargs.json
  embedded:rover, the model in this program

"model import" makes a bundle of a checkpoint, of ONNX models or of a SavedModel.`,
		Example: "  optibfm model inspect embedded:rover",
	}
	return withSubcommands(cmd,
		newModelImport(), newModelExport(), newModelPrior(),
		newModelInspect(), newModelCheck(), newModelEval(), newModelBackend())
}

func newModelPrior() *cobra.Command {
	o := bundle.DefaultPriorOptions()
	cmd := &cobra.Command{
		Use:   "prior BUNDLE --observations obs.npz",
		Short: "Estimate which tasks are likely, from observations, and add that to a bundle",
		Long: `Estimate the task prior of a model and add it to the bundle, or replace the former
one. With a prior, a robot learns a task from fewer labels. The command uses
observations alone, obs [n, O] with n of at least ten times d, better 20,000, for
example the training data. A file of labelled states also serves; its rewards are
not read. The estimate takes about half a minute with d = 50.

The command prints how far rewards that the estimate left out are from the prior:
u²/d is about 1 for a likely task. The median is at most 1 and the 90th percentile
at most 2. docs/models.md explains it.`,
		Example: `  optibfm model prior models/walker --observations models/walker/states.npz
  optibfm model prior models/walker --observations obs.npz --out models/walker-prior`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundle.AddPrior(cmd.OutOrStdout(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Observations, "observations", "", "an .npz file with obs [n, O]")
	f.StringVar(&o.Out, "out", "", "the folder of a copy, new or empty (default: change the bundle itself)")
	f.IntVar(&o.Rewards, "rewards", o.Rewards, "number of random rewards, at least 100 and ten times d")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of observations and rewards")
	f.StringVar(&o.Library, "library", "",
		"SavedModel: the folder of TensorFlow's library (default: the install script's)")
	requireFlags(cmd, "observations")
	return cmd
}

func newModelInspect() *cobra.Command {
	return &cobra.Command{
		Use:     "inspect BUNDLE",
		Short:   "Print the sizes, channels and provenance of a model",
		Example: "  optibfm model inspect embedded:rover",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundle.Describe(cmd.OutOrStdout(), args[0])
		},
	}
}

func newModelCheck() *cobra.Command {
	var tolerance float64
	cmd := &cobra.Command{
		Use:   "check BUNDLE vectors.npz",
		Short: "Compare a model's results with those of its training framework",
		Long: `Evaluate the cases of vectors.npz and print the largest relative errors of phi,
action and psi: max|x - y| / max|y| over the elements of a case, the largest of
all cases. The command fails if one is above the tolerance.

vectors.npz holds obs [n, O] (or obs/GROUP for each group), z [n, d] and the
expected phi [n, d], action [n, A] and psi [E, n, d] at that action. If it holds
cov_b [d, d], phi is computed with it, except for a SavedModel.`,
		Example: "  optibfm model check models/cheetah models/cheetah/vectors.npz",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundle.Check(cmd.OutOrStdout(), args[0], args[1], tolerance)
		},
	}
	cmd.Flags().Float64Var(&tolerance, "tolerance", 0,
		"the largest relative error that passes (default: 1e-4, of a model with float16 weights 1e-2)")
	return cmd
}

func newModelEval() *cobra.Command {
	var p bundle.Point
	cmd := &cobra.Command{
		Use:   "eval BUNDLE --obs '[...]' --z '[...]'",
		Short: "Evaluate φ, π and ψ at one observation, as JSON",
		Long: `Print {"phi": [d], "action": [A], "psi": [E][d]}. Without --action, psi is at the
policy's action. Each argument is a JSON array, or @FILE with one.`,
		Example: "  optibfm model eval models/cheetah --obs @obs.json --z @z.json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := bundle.Evaluate(args[0], p)
			if err != nil {
				return err
			}
			if e.Phi == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), tflite.ErrNoCovariance)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(e)
		},
	}
	cmd.Flags().StringVar(&p.Obs, "obs", "", "the observation, [O]")
	cmd.Flags().StringVar(&p.Z, "z", "", "the task embedding, [d], of any norm")
	cmd.Flags().StringVar(&p.Action, "action", "", "the action for psi, [A] (default: the policy's)")
	requireFlags(cmd, "obs", "z")
	return cmd
}

func newModelBackend() *cobra.Command {
	o := bundle.DefaultBackendOptions()
	cmd := &cobra.Command{
		Use: "backend", Args: cobra.NoArgs,
		Short: "Check a backend: its device, agreement with the native networks, time",
		Long: `Open the backend of a configuration as a run does, print what it runs on, and compare
its searches with those of the native networks. The command fails if the backend is
missing, or if the results differ.`,
		Example: `  optibfm model backend --set model.backend=tensorflow
  optibfm model backend --set model.backend=tensorflow --set model.tensorflow.device=/CPU:0`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bundle.CompareBackend(cmd.OutOrStdout(), o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Config, "config", "c", o.Config, "a `CONFIG`: a file, or a name (optibfm config list)")
	f.StringArrayVar(&o.Set, "set", nil, "override a key of the configuration: `KEY=VALUE`; repeatable")
	f.IntVar(&o.Candidates, "candidates", o.Candidates, "candidates of a search")
	f.IntVar(&o.Searches, "searches", o.Searches, "number of searches to compare")
	return cmd
}

func newModelExport() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "export BUNDLE --onnx DIR",
		Short: "Write φ, π and ψ as ONNX models",
		Long: `Write the networks of a bundle as ONNX models (opset 17, float32):

  phi.onnx       obs [n, O]                           -> phi [n, d]
  backward.onnx  obs [n, O]                           -> backward [n, d], B(s)
  policy.onnx    obs [n, O], z [n, d]                 -> action [n, A]
  psi.onnx       obs [n, O], action [n, A], z [n, d]  -> psi [E, n, d]

Where Python's onnxruntime is installed, the command compares them with the native
networks and fails if they differ by more than 1e-4.`,
		Example: "  optibfm model export models/walker --onnx walker-onnx",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundle.ExportONNX(cmd.OutOrStdout(), args[0], dir)
		},
	}
	cmd.Flags().StringVar(&dir, "onnx", "", "the folder of the models, new or empty")
	requireFlags(cmd, "onnx")
	return cmd
}

func newModelImport() *cobra.Command {
	o := bundle.ImportOptions{Signatures: tflite.DefaultSignatures()}
	cmd := &cobra.Command{
		Use:   "import CHECKPOINT|SAVEDMODEL|POLICY.onnx --out BUNDLE",
		Short: "Make a bundle of a checkpoint, of ONNX models or of a TensorFlow SavedModel",
		Long: `A checkpoint needs --observations, from which the command computes Cov B. Give the
observations of the training data, obs [n, O] with n of at least 10 d, better 20,000
(of BFM-Zero: obs/state, obs/privileged_state and so on). With observations it also
estimates the task prior, as "model prior" does.

Weights of linear layers become float16, which halves memory and time of a tick, if
that changes φ, π and ψ by at most 5e-3; sums remain float32. The command prints the
change. --weights float32 keeps the weights.

POLICY.onnx, such as UFO publishes, needs --backward and --observations. The model
has no ψ: the strategy thompson works, ucb does not. The command names the first
node that it does not know, and compares with ONNX Runtime where it is installed.

A SavedModel (a folder with saved_model.pb) needs a program that was built with
-tags tensorflow. The command compares its signatures with those of a model,
evaluates it at random inputs and copies its files. docs/tensorflow.md describes
how to export one.`,
		Example: `  optibfm model import checkpoints/walker --observations obs.npz --out models/walker
  optibfm model import policy.onnx --backward b.onnx --observations obs.npz --out models/g1
  optibfm model import exported/walker --out models/walker --gamma 0.98`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return bundle.Import(cmd.OutOrStdout(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "the folder of the bundle, new or empty")
	f.StringVar(&o.Observations, "observations", "", "an .npz file with obs [n, O] of the training data")
	f.StringVar(&o.Name, "name", "", "the model's name (default: the imported folder)")
	f.Float64Var(&o.Gamma, "gamma", 0, "the discount of the training; 0: unknown")
	f.StringSliceVar(&o.ObsChannels, "obs-channels", nil,
		"names of the observation's elements, with optional units: x:m,v:m/s")
	f.StringSliceVar(&o.ActionChannels, "action-channels", nil, "names of the action's elements, with optional units")
	f.StringVar(&o.Weights, "weights", bundle.AutoWeights,
		"checkpoint: how to store the weights of linear layers: auto, float32 or float16")
	f.StringVar(&o.Backward, "backward", "", "ONNX: the model of B(s)")
	f.StringVar(&o.Licence, "licence", "", "the model's licence (default: that of the model card, README.md)")
	f.StringVar(&o.Revision, "revision", "", "the download's revision (default: the one that hf download noted)")
	f.StringVar(&o.Signatures.Phi, "phi", o.Signatures.Phi, "SavedModel: the signature of φ")
	f.StringVar(&o.Signatures.Policy, "policy", o.Signatures.Policy, "SavedModel: the signature of π")
	f.StringVar(&o.Signatures.Psi, "psi", o.Signatures.Psi, "SavedModel: the signature of ψ")
	f.BoolVar(&o.NormZ, "norm-z", false, "SavedModel, ONNX: its input is √d·z/‖z‖ instead of z")
	f.StringVar(&o.Library, "library", "",
		"SavedModel: the folder of TensorFlow's library (default: the install script's)")
	requireFlags(cmd, "out")
	return cmd
}
