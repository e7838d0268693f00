package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/setup"
	"optibfm/internal/shell"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write, check and explain configurations",
		Example: `  optibfm config init robot -o myrobot.yaml   a commented file to change
  optibfm config validate myrobot.yaml        what is wrong in it, and where
  optibfm config schema > optibfm.schema.json for an editor that completes keys`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(
		newConfigListCommand(), newConfigInitCommand(), newConfigValidateCommand(),
		newConfigShowCommand(), newConfigSchemaCommand(),
	)
	return cmd
}

func newConfigListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the ready-made configurations",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listConfigs(cmd.OutOrStdout())
		},
	}
}

func listConfigs(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range configs.Names() {
		summary, err := configs.Summary(name)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(table, "%s\t%s\n", name, summary); err != nil {
			return err
		}
	}
	return table.Flush()
}

func newConfigInitCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "init [NAME]",
		Short: "Write a ready-made configuration with comments (default: rover)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "rover"
			if len(args) == 1 {
				name = args[0]
			}
			return initConfig(cmd.OutOrStdout(), name, out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write, which must not exist (default: standard output)")
	return cmd
}

func initConfig(w io.Writer, name, path string) error {
	text, err := configs.Text(name)
	if err != nil {
		return err
	}
	if path == "" {
		_, err := w.Write(text)
		return err
	}
	// Somebody's configuration is never overwritten.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("config init: %s: the file exists already: choose another name, or move it away", path)
	}
	if err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("config init: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s: written; start it with: optibfm run --config %s\n", path, shell.Quote(path))
	return err
}

func newConfigValidateCommand() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check configurations and point to what is wrong",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return validateConfigs(cmd.OutOrStdout(), args, set)
		},
	}
	addSetFlag(cmd, &set)
	return cmd
}

// validateConfigs checks all files, so that one run shows all mistakes.
func validateConfigs(w io.Writer, paths, set []string) error {
	var wrong []error
	for _, path := range paths {
		file, err := configs.Load(path, set...)
		verdict := "valid"
		if err == nil {
			var warning string
			if warning, err = setup.CheckChannelsOfFile(file); warning != "" {
				verdict += "; warning: " + warning
			}
		}
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", path, verdict); err != nil {
			return err
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("config validate:\n%w", errors.Join(wrong...))
}

func newConfigShowCommand() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "show [NAME|FILE]",
		Short: "Print a configuration in full, defaults included (default: rover)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := "rover"
			if len(args) == 1 {
				name = args[0]
			}
			cfg, err := configs.Load(name, set...)
			if err != nil {
				return err
			}
			text, err := cfg.YAML()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	addSetFlag(cmd, &set)
	return cmd
}

func newConfigSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a configuration",
		Long: `Print the JSON Schema of a configuration.

Editors with a YAML language server complete and check keys where a file begins
with the line

  # yaml-language-server: $schema=optibfm.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(configs.Schema())
			return err
		},
	}
}

// addSetFlag adds --set, which overrides keys of a configuration.
func addSetFlag(cmd *cobra.Command, set *[]string) {
	cmd.Flags().StringArrayVar(set, "set", nil, "change a value: key.path=value (may be repeated)")
}
