// Command optibfm-unitree talks to a Unitree robot for optibfm: its writer processes, which alone load libddsc, so that
// optibfm itself stays a static program; a check of the robot's network; and the release of the robot's controller.
package main

import (
	"fmt"
	"os"

	"optibfm/hal/unitree"
	"optibfm/hal/unitree/writer"
)

const usage = `usage: optibfm-unitree COMMAND

  writer, standby  the processes that command the robot; optibfm starts them
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "optibfm-unitree:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) == 0 {
		_, err := fmt.Print(usage)
		return err
	}
	switch arguments[0] {
	case unitree.RolePrimary, unitree.RoleStandby:
		return writer.Serve(arguments[0])
	case "help", "-h", "--help":
		_, err := fmt.Print(usage)
		return err
	}
	return fmt.Errorf("unknown command %q\n%s", arguments[0], usage)
}
