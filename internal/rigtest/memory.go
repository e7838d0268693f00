package rigtest

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// soakVariable sets the number of ticks of memory tests: 4,320,000 are a day at 50 Hz and take half
// an hour.
const soakVariable = "OPTIBFM_SOAK_TICKS"

// SoakTicks returns the number of ticks of a memory test.
func SoakTicks() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(soakVariable), 10, 64); err == nil {
		return n
	}
	if testing.Short() {
		return 6000
	}
	return 24_000
}

// Memory samples the memory of the process at regular ticks.
type Memory struct {
	every   uint64 // ticks
	samples []memorySample
}

type memorySample struct {
	tick     uint64
	heap     uint64 // bytes in use after a garbage collection
	resident string // VmRSS before it
}

// NewMemory returns a Memory for a run of so many ticks.
func NewMemory(ticks uint64) *Memory { return &Memory{every: max(1, ticks/24)} }

// Sample takes a sample if it is due at this tick.
func (m *Memory) Sample(tick uint64) {
	if tick%m.every != 0 {
		return
	}
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	resident, _, _ := strings.Cut(rest, "\n")
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m.samples = append(m.samples, memorySample{tick, stats.HeapAlloc, strings.TrimSpace(resident)})
}

// CheckConstant fails if the heap grows after the first sixth of a run. The margin is for buffers
// that grow to the largest chunk.
func (m *Memory) CheckConstant(t *testing.T) {
	t.Helper()
	for _, s := range m.samples {
		t.Logf("%9d ticks: heap %6d KiB, VmRSS %s", s.tick, s.heap>>10, s.resident)
	}
	const margin = 256 << 10
	early := m.samples[len(m.samples)/6].heap
	for _, s := range m.samples[len(m.samples)/6:] {
		if s.heap > early+margin {
			t.Errorf("after %d ticks the heap is %d bytes; it was %d", s.tick, s.heap, early)
		}
	}
}
