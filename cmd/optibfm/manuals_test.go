package main

import (
	"testing"

	"optibfm"
	"optibfm/internal/cli"
	"optibfm/internal/manualtest"
)

func TestManuals_CommandsAreThoseOfTheProgram(t *testing.T) {
	optibfm.RegisterCommand(newCalibrateCommand)
	manualtest.CheckCommands(t, "../..", cli.NewRootCommand(), 130)
}
