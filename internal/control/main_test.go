package control

import (
	"os"
	"testing"

	"optibfm/internal/rigtest"
)

func TestMain(m *testing.M) { os.Exit(rigtest.RunInTurn(m)) }
