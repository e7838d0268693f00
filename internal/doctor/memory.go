package doctor

import (
	"fmt"
)

// memorySize compares the computer's memory with what a run may lock: all of
// the control process, up to loop.memory_limit_mib of Go memory.
func (d *doctor) memorySize() finding {
	text, ok := d.read("/proc/meminfo")
	total, ok1 := kibibytes(text, "MemTotal")
	available, ok2 := kibibytes(text, "MemAvailable")
	if !ok || !ok1 || !ok2 {
		return skipped("/proc/meminfo does not tell")
	}
	total, available = total>>10, available>>10
	limit := int64(d.file.Loop.MemoryLimitMiB)
	found := fmt.Sprintf("%d of %d MiB free, up to %d for the control process", available, total, limit)
	values := map[string]float64{"total_mib": float64(total), "available_mib": float64(available), "limit_mib": float64(limit)}
	const mend = "lower loop.memory_limit_mib, end other programs, or take a computer with more"
	switch {
	case limit > total:
		return broken(mend, "%s: more than there is", found).with(values)
	case limit > available:
		return lacking(mend, "%s: locked memory cannot be swapped out, and others would be killed for it", found).with(values)
	case limit > total/2:
		return doubtful(mend, "%s: more than half", found).with(values)
	}
	return fine("%s", found).with(values)
}
