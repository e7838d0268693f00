//go:build robot

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// figureCommands say where the commands below eval that draw are.
func figureCommands() (cmds []*cobra.Command) {
	for _, name := range []string{"report", "theory"} {
		cmds = append(cmds, &cobra.Command{
			Use: name, Short: "Not in this program, which is a robot's", DisableFlagParsing: true,
			RunE: func(*cobra.Command, []string) error {
				return errors.New("eval " + name + ": it is not in this program, which was built for a robot: build it without the tag robot: `go build ./cmd/optibfm`")
			},
		})
	}
	return cmds
}
