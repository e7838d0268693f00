package usage

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"optibfm/configs"
)

// Explain changes the messages of a command and of its subcommands.
func Explain(root *cobra.Command) {
	root.SetFlagErrorFunc(flagError)
	explainArgs(root)
}

// flagError proposes the nearest flag for an unknown one.
func flagError(cmd *cobra.Command, err error) error {
	unknown, found := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !found {
		return fmt.Errorf("%s: %w; see: %s --help", cmd.Name(), err, cmd.CommandPath())
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f.Name)
		}
	})
	if near := configs.Nearest(unknown, flags); near != "" {
		return fmt.Errorf("%s: %w; did you mean --%s?", cmd.Name(), err, near)
	}
	return fmt.Errorf("%s: %w; see: %s --help", cmd.Name(), err, cmd.CommandPath())
}

func explainArgs(cmd *cobra.Command) {
	for _, c := range cmd.Commands() {
		explainArgs(c)
	}
	check := cmd.Args
	if check == nil || !cmd.HasParent() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case !cmd.HasSubCommands() || len(args) == 0:
			return fmt.Errorf("%s: wrong number of arguments (%d); usage: %s", cmd.Name(), len(args), cmd.UseLine())
		}
		var names []string
		for _, c := range cmd.Commands() {
			names = append(names, c.Name())
		}
		fix := "see: " + cmd.CommandPath() + " --help"
		if near := configs.Nearest(args[0], names); near != "" {
			fix = "did you mean " + near + "?"
		}
		return fmt.Errorf("%w; %s", err, fix)
	}
}
