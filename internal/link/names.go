package link

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// HostName is the name of the host process in ps and top: its arguments begin with
// it, and it is the name of its threads, which the kernel cuts at 15 bytes.
const HostName = "optibfm-host"

// NameThreads names the threads of this process, of which the first is the process's
// own name. Later ones inherit it.
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
