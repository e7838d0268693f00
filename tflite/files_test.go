package tflite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"optibfm/internal/fatal"
	"optibfm/internal/safefile"
)

func TestLoadDir_RejectsIrregularFiles(t *testing.T) {
	m, tensors := tiny()
	for name, file := range map[string]string{
		"manifest": manifestFileName, "weights": weightsFileName, "checkpoint": CheckpointFileName,
	} {
		for kind, replace := range map[string]func(path string) error{
			"pipe":   func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"device": func(path string) error { return os.Symlink("/dev/zero", path) },
		} {
			t.Run(name+" "+kind, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "bundle")
				fatal.If(t, Save(dir, m, tensors))
				remove := file
				if file == CheckpointFileName { // LoadDir reads it if there is no manifest
					remove = manifestFileName
				}
				err := errors.Join(os.Remove(filepath.Join(dir, remove)), replace(filepath.Join(dir, file)))
				fatal.If(t, err)
				errs := make(chan error, 1)
				go func() {
					_, err := LoadDir(dir)
					if file == manifestFileName {
						_, saved := LoadSavedModel(dir)
						errs <- errors.Join(err, saved)
						return
					}
					errs <- err
				}()
				select {
				case err := <-errs:
					if !errors.Is(err, safefile.ErrNotRegular) || !strings.Contains(err.Error(), dir) ||
						!strings.Contains(err.Error(), file) {
						t.Errorf("%v, want ErrNotRegular", err)
					}
				case <-time.After(2 * time.Minute): // a guard against a hang
					t.Fatal("still waiting")
				}
			})
		}
	}
}
