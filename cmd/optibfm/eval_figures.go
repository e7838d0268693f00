//go:build !robot

package main

import "github.com/spf13/cobra"

// figureCommands are the commands below eval that draw. What they draw with is a
// quarter of the program, more than half of it fonts: gonum/plot embeds twelve of
// them. The robot's package leaves them out, with the tag robot.
func figureCommands() []*cobra.Command {
	return []*cobra.Command{newEvalReportCommand(), newEvalTheoryCommand()}
}
