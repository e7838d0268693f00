package cli

import (
	"github.com/spf13/cobra"

	"optibfm/internal/host"
)

// newHostCommand is the host process, which `run` starts. It is hidden from people.
func newHostCommand() *cobra.Command {
	return &cobra.Command{
		Use: "host", Hidden: true, Args: cobra.NoArgs,
		Short: "The host process of run",
		RunE:  func(cmd *cobra.Command, _ []string) error { return host.Serve(cmd.OutOrStdout()) },
	}
}
