// Command optibfm-unitree talks to a Unitree robot for optibfm. It has the writer processes, a
// check of the robot's network, and the release of the robot's controller. Only the writer
// processes load libddsc, so that optibfm stays a static program.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"optibfm/hal/unitree"
	"optibfm/hal/unitree/writer"
)

const usage = `usage: optibfm-unitree COMMAND [-interface NAME] [-model go2|g1] [-domain N] [-library PATH]

  check            look at the robot's network; it writes no command
  release          release the robot's own controller: HANG THE ROBOT OR LAY IT DOWN, its motors lose their torque
  writer, standby  the processes that command the robot; optibfm starts them
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "optibfm-unitree:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		_, err := fmt.Print(usage)
		return err
	}
	switch arguments[0] {
	case unitree.RolePrimary, unitree.RoleStandby:
		return writer.Serve(arguments[0])
	case "check":
		return check(ctx, arguments[1:])
	case "release":
		c, _, err := parse(arguments[1:])
		if err != nil {
			return err
		}
		return writer.Release(ctx, c)
	case "help", "-h", "--help":
		_, err := fmt.Print(usage)
		return err
	}
	return fmt.Errorf("unknown command %q\n%s", arguments[0], usage)
}

// parse returns the robot that the flags describe. With -json it is on standard input.
func parse(arguments []string) (c unitree.Config, asJSON bool, err error) {
	c = unitree.DefaultConfig()
	flags := flag.NewFlagSet("optibfm-unitree", flag.ContinueOnError)
	flags.StringVar(&c.Interface, "interface", unitree.Loopback, "network interface of the robot")
	flags.StringVar(&c.Model, "model", unitree.Go2, "go2 or g1")
	flags.IntVar(&c.Domain, "domain", 0, "DDS domain")
	flags.StringVar(&c.Library, "library", "", "file or folder of libddsc")
	flags.BoolVar(&asJSON, "json", false, "read the configuration from standard input, and write JSON")
	if err := flags.Parse(arguments); err != nil {
		return c, false, err
	}
	if flags.NArg() > 0 {
		return c, false, fmt.Errorf("unexpected argument %q\n%s", flags.Arg(0), usage)
	}
	if asJSON {
		if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
			return c, false, fmt.Errorf("configuration: %w", err)
		}
	}
	if unitree.Joints(c.Model) == nil {
		return c, false, fmt.Errorf("unknown model %q; use %s or %s", c.Model, unitree.Go2, unitree.G1)
	}
	return c, asJSON, nil
}

func check(ctx context.Context, arguments []string) error {
	c, asJSON, err := parse(arguments)
	if err != nil {
		return err
	}
	report := writer.Check(ctx, c)
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(report)
	}
	bad := 0
	for _, f := range report {
		mark := "ok  "
		switch {
		case f.Warn:
			mark = "warn"
		case !f.OK:
			mark = "FAIL"
			bad++
		}
		fmt.Println(mark, f.Text)
		if f.Fix != "" {
			fmt.Println("     fix:", f.Fix)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d obstacles", bad)
	}
	return nil
}
