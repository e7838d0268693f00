package main

import "github.com/spf13/cobra"

func newEvalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "eval", Short: "Experiments and what they found"}
	cmd.AddCommand(newEvalReportCommand())
	return cmd
}
