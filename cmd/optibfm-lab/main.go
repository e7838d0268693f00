// Command optibfm-lab measures models and methods on a laptop, without a robot.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/internal/plaintext"
	"optibfm/internal/usage"
	_ "optibfm/standard" // the drivers of configurations
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := newRootCommand()
	root.SetOut(plaintext.NewWriter(os.Stdout))
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "optibfm-lab:", plaintext.Printable(err.Error()))
		os.Exit(1)
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "optibfm-lab",
		Short:         "Measure models and methods without a robot",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cobra.EnableCommandSorting = false
	root.AddCommand(newEvalCommand(), newTheoryCommand(), newBenchCommand(), newBackendCommand(), newCollectCommand(),
		newUnitreeRobotCommand())
	usage.Explain(root)
	usage.RefuseLeadingZeros(root)
	return root
}
