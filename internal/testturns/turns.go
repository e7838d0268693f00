// Package testturns lets test packages with deadlines run one after the other.
package testturns

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Run runs the tests of a package whose loops have deadlines, one package after the other: `go test
// ./...` runs as many packages at once as there are processors. It returns the exit status.
func Run(m *testing.M) int {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("optibfm-test-turn-%d", os.Getuid()))
	turn, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(turn.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test: taking turns:", err)
		return 1
	}
	defer turn.Close() // the next package
	preferThreads()
	if err := flag.Set("test.parallel", "6"); err != nil { // they mostly wait; -parallel overrides it
		fmt.Fprintln(os.Stderr, "test:", err)
		return 1
	}
	return m.Run()
}

// preferThreads prefers this process to the computations of other packages, as root.
func preferThreads() {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, -10)
		}
	}
}
