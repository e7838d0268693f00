package control

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// allocationsOf calls f twice and returns the allocations of the second call with their call
// stacks. testing.AllocsPerRun counts the whole process, which includes fakes of devices and
// threads that the runtime starts on a busy machine. The memory profile misses only tiny objects
// that share a block with others.
func allocationsOf(f func()) []string {
	f()
	name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
	before := profiled(name)
	rate := runtime.MemProfileRate
	runtime.MemProfileRate = 1
	f()
	runtime.MemProfileRate = rate
	var found []string
	for stack, n := range profiled(name) {
		if n > before[stack] {
			found = append(found, fmt.Sprintf("%d × %s", n-before[stack], stack))
		}
	}
	return found
}

// profiled counts the objects of the memory profile by the functions between the allocation and the
// named one.
func profiled(name string) map[string]int64 {
	for range 2 { // the profile is one cycle late
		runtime.GC()
	}
	var records []runtime.MemProfileRecord
	for n, ok := runtime.MemProfile(nil, true); !ok; n, ok = runtime.MemProfile(records, true) {
		records = make([]runtime.MemProfileRecord, n+64)
	}
	counts := map[string]int64{}
	for _, r := range records {
		if stack, through := stackTo(name, r.Stack()); through && !isTypeCache(stack) {
			counts[stack] += r.AllocObjects
		}
	}
	return counts
}

// isTypeCache reports whether a stack allocates a cache of the runtime for type assertions, such as
// those in errors.Is. The runtime makes them at random times; their number is bounded.
func isTypeCache(stack string) bool {
	return strings.Contains(stack, "runtime.buildTypeAssertCache:") ||
		strings.Contains(stack, "runtime.buildInterfaceSwitchCache:")
}

// stackTo returns the functions up to the named one.
func stackTo(name string, pcs []uintptr) (stack string, through bool) {
	var functions []string
	for frames, more := runtime.CallersFrames(pcs), true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if frame.Function == name {
			return strings.Join(functions, " < "), true
		}
		functions = append(functions, fmt.Sprintf("%s:%d", frame.Function, frame.Line))
	}
	return "", false
}

func TestAllocationsOf_IgnoresOtherGoroutines(t *testing.T) {
	var sink *[4]int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				_ = make([]byte, 1<<10+len(done))
			}
		}
	}()
	if found := allocationsOf(func() {
		for range 1000 {
			runtime.Gosched()
		}
	}); found != nil {
		t.Errorf("allocated nothing, found %q", found)
	}
	runs := 0
	once := func() {
		if runs++; runs == 2 {
			sink = new([4]int64)
		}
	}
	if found := allocationsOf(func() { once() }); len(found) != 1 || !strings.HasPrefix(found[0], "1 × ") {
		t.Errorf("allocated once, found %q", found)
	}
	close(stop)
	<-done
	_ = sink
}
