package setup

import (
	"github.com/spf13/cobra"
)

func AddSetFlag(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "change a value: key.path=value (may be repeated)")
}
