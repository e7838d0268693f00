package ipc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// HostName is the name of the host process in ps and top: its first argument and the name of its
// threads. The kernel keeps 15 bytes.
const HostName = "optibfm-host"

// NameThreads names all threads of this process. Later threads inherit the name.
func NameThreads(name string) error {
	threads, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		return err
	}
	for _, path := range threads {
		if err := os.WriteFile(path, []byte(name), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("host: naming the process: %w", err)
		}
	}
	return nil
}
