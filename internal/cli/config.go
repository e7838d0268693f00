package cli

import (
	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/cli/configfile"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write, check and print configurations",
		Example: `  optibfm config init robot -o myrobot.yaml     a commented file to change
  optibfm config validate myrobot.yaml          its mistakes, and where they are
  optibfm config schema > optibfm.schema.json   for an editor that completes keys`,
	}
	return withSubcommands(cmd,
		newConfigList(), newConfigInit(), newConfigValidate(), newConfigShow(), newConfigSchema())
}

func newConfigList() *cobra.Command {
	return &cobra.Command{
		Use: "list", Args: cobra.NoArgs,
		Short: "List the ready-made configurations",
		RunE:  func(cmd *cobra.Command, _ []string) error { return configfile.List(cmd.OutOrStdout()) },
	}
}

func newConfigInit() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "init [NAME]",
		Short:   "Write a ready-made configuration with comments (default: rover)",
		Example: "  optibfm config init robot -o myrobot.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return configfile.Init(cmd.OutOrStdout(), nameOrRover(args), out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	return cmd
}

func newConfigValidate() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:     "validate FILE...",
		Short:   "Check configurations and show the place of each mistake",
		Example: "  optibfm config validate myrobot.yaml --set loop.posture=strict",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return configfile.Validate(cmd.OutOrStdout(), args, set)
		},
	}
	addSetFlag(cmd, &set)
	return cmd
}

func newConfigShow() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:     "show [NAME|FILE]",
		Short:   "Print a configuration in full, with defaults (default: rover)",
		Example: "  optibfm config show rover-fast --set controller.gate.kappa=0.1",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return configfile.Show(cmd.OutOrStdout(), nameOrRover(args), set)
		},
	}
	addSetFlag(cmd, &set)
	return cmd
}

func newConfigSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a configuration",
		Long: `Print the JSON Schema of a configuration.

An editor with a YAML language server completes and checks keys in a file that
begins with the line

  # yaml-language-server: $schema=optibfm.schema.json`,
		Example: "  optibfm config schema > optibfm.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(configs.Schema())
			return err
		},
	}
}

// nameOrRover returns the configuration in args, by default the built-in rover's.
func nameOrRover(args []string) string {
	if len(args) == 1 {
		return args[0]
	}
	return configs.DefaultName()
}
