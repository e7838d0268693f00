package main

import (
	"testing"

	"optibfm/internal/manualtest"
)

func TestManuals_CommandsAreThoseOfTheProgram(t *testing.T) {
	manualtest.CheckCommands(t, "../..", newRootCommand(), 15)
}
