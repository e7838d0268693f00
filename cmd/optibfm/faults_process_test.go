package main

import (
	"fmt"
	"os"
)

// spoiledHost names, to a host process of a test, what it does wrong.
const spoiledHost = "OPTIBFM_TEST_SPOIL"

func runSpoiledHost(string) { fmt.Fprintln(os.Stderr, "not yet"); os.Exit(1) }
