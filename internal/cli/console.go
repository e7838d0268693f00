package cli

import (
	"github.com/spf13/cobra"

	"optibfm/configs"
	"optibfm/internal/trust"
)

func newConsoleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "console",
		Short:   "Let phones trust the console",
		Example: "  optibfm console certificate -c myrobot.yaml",
	}
	return withSubcommands(cmd, newConsoleCertificate())
}

func newConsoleCertificate() *cobra.Command {
	var o trust.Options
	cmd := &cobra.Command{
		Use: "certificate", Args: cobra.NoArgs,
		Short: "Show, renew or revoke the robot's root certificate",
		Long: `Print the root certificate of the robot's authority, which a phone can trust
(docs/console.md). A console on the network makes the authority once, in run.state_dir or
else in ~/.local/state/optibfm. Run the command as the user of the host process. A running
console keeps its authority until the next run. After --renew and --revoke, remove the old
root certificate from each phone: only that ends its trust.`,
		Example: `  optibfm console certificate -c myrobot.yaml
  optibfm console certificate -c myrobot.yaml --pem > robot.crt
  sudo -u optibfm-host optibfm console certificate --renew -c /etc/optibfm/robot.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error { return trust.Run(cmd.OutOrStdout(), o) },
	}
	f := cmd.Flags()
	f.StringVarP(&o.Config, "config", "c", configs.DefaultName(), "the `CONFIG` that the robot runs with")
	addSetFlag(cmd, &o.Set)
	f.BoolVar(&o.Renew, "renew", false, "replace the authority, for the present names of the robot")
	f.BoolVar(&o.Revoke, "revoke", false, "remove the authority and its key")
	f.BoolVar(&o.PEM, "pem", false, "print only the root certificate, in PEM")
	cmd.MarkFlagsMutuallyExclusive("renew", "revoke", "pem")
	return cmd
}
