package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"optibfm/internal/jitter"
)

func newJitterCommand() *cobra.Command {
	o := jitter.Options{PeriodMS: 1, Seconds: 60, Slice: 5, Priority: 80}
	cmd := &cobra.Command{
		Use: "jitter", Args: cobra.NoArgs,
		Short: "Measure how late this machine wakes the control loop",
		Long: `Measure how late this machine wakes the bare control loop.

With --config, the whole program (optibfm run) alternates with it in turns of
--slice seconds under that configuration: it writes its log, plans in every tick
and gets its labels from a simulated operator. The loop then has the
configuration's period, priority and processors. The command refuses robots that
may have actuators, because opening and halting a robot writes to its outputs:
measure its loop with the simulated rover (the error gives the command). The
program runs as the same user and without a control socket.

"missed" counts the ticks that the loop skipped. --hog starts processes that each
keep one processor busy.`,
		Example: `  optibfm jitter --period-ms 20 --seconds 60
  sudo optibfm jitter --period-ms 1 --fifo 80 --cpus 1 --hog 4 --json
  sudo optibfm jitter --config rover --set robot.rover.period_ms=5 --set loop.period_ms=5`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			r, err := jitter.Measure(ctx, o)
			if err != nil {
				return err
			}
			return r.Print(cmd.OutOrStdout(), o.JSON)
		},
	}
	f := cmd.Flags()
	f.Float64Var(&o.PeriodMS, "period-ms", o.PeriodMS, "period of the loop")
	f.Float64Var(&o.Seconds, "seconds", o.Seconds, "total time of each candidate")
	f.Float64Var(&o.Slice, "slice", o.Slice, "duration of a turn, in seconds")
	f.IntVar(&o.Priority, "fifo", o.Priority, "SCHED_FIFO priority; 0: ordinary scheduler")
	f.IntSliceVar(&o.CPUs, "cpus", nil, "allowed processors; default: all")
	f.IntVar(&o.Hogs, "hog", 0, "number of processes that keep processors busy")
	f.BoolVar(&o.JSON, "json", false, "print JSON")
	f.StringVarP(&o.Config, "config", "c", "", "also measure the whole program under `CONFIG`: a file or a name")
	f.StringArrayVar(&o.Set, "set", nil, "override a key of that configuration: `KEY=VALUE`; repeatable")
	for _, flag := range []string{"period-ms", "fifo", "cpus"} {
		cmd.MarkFlagsMutuallyExclusive("config", flag)
	}
	return cmd
}
