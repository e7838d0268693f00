package serialtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/internal/fatal"
)

// Name is a lasting name of a port, as in /dev/serial/by-id.
type Name struct{ Path string }

// Link gives a port such a name.
func Link(t testing.TB, port string) Name {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "by-id")
	fatal.If(t, os.Mkdir(folder, 0o755))
	n := Name{filepath.Join(folder, "port")}
	n.Point(t, port)
	return n
}

// Point makes it the name of another port.
func (n Name) Point(t testing.TB, port string) {
	t.Helper()
	_ = os.Remove(n.Path)
	fatal.If(t, os.Symlink(port, n.Path))
}

// HaltAgain repeats the Halt of a device, as the control thread does in every tick, until it
// succeeds.
func HaltAgain(t testing.TB, d hal.Device, failsafe []float64) {
	t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = d.Halt(failsafe); err == nil {
			return
		}
	}
	t.Fatal(err)
}
