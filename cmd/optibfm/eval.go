package main

import "github.com/spf13/cobra"

// newEvalCommand groups the experiments.
func newEvalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "eval", Short: "Run the experiments"}
	cmd.AddCommand(newEvalTheoryCommand())
	return cmd
}
