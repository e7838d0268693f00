package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"optibfm/internal/version"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: cobra.NoArgs,
		Short: "Print the version",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "optibfm %s %s %s/%s\n",
				version.String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
