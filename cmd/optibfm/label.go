package main

import (
	"github.com/spf13/cobra"
)

func newLabelCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "label",
		Short: "Set up the device that rewards are given with",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newLabelBindCommand())
	return cmd
}
