package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"optibfm/internal/cli/inference"
	"optibfm/internal/registry"
)

func newInferCommand() *cobra.Command {
	var o inference.Options
	cmd := &cobra.Command{
		Use:   "infer LABELS.npz",
		Short: "Infer the task from labelled observations or features",
		Long: `Infer the task from reward [n] and, with --model, obs [n, o] or, without, phi [n, d]
in LABELS.npz. The optional query [m, d] holds features. The output is JSON:

  z       the task embedding, V⁻¹ Σ w r φ with V = λI + Σ w φφᵀ
  logdet  log det V
  dgap    for each query the gain of its label, log(1 + ‖q‖²), nats
  norm    for each query ‖q‖ = √(qᵀV⁻¹q)

With --rho below 1 the rows are in the order of time, one per period: the last has
the weight w = 1, the one before ρ, then ρ², ... The prior does not decay.`,
		Example: `  optibfm infer labels.npz --model embedded:rover
  optibfm infer features.npz --lambda 0.1 --rho 0.999`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			result, err := inference.FromFile(args[0], o)
			if err != nil {
				return err
			}
			for _, text := range result.Warnings {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s: %s\n", args[0], text)
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Model, "model", "", "model bundle: a folder, or "+strings.Join(registry.Models(), ", "))
	flags.Float64Var(&o.Lambda, "lambda", 1, "prior precision, above 0")
	flags.Float64Var(&o.Rho, "rho", 1, "weight that a label keeps per period, in (0, 1]")
	return cmd
}
