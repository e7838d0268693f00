package control

import (
	"os"
	"testing"

	"optibfm/internal/testturns"
)

func TestMain(m *testing.M) { os.Exit(testturns.Run(m)) }
