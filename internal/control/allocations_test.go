package control

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// allocationsOf runs f twice and returns what the second run allocated, each
// with the functions that led to it. testing.AllocsPerRun counts what the whole
// process allocates: what earlier tests have left running, the fakes of devices,
// and each thread that the runtime starts when the machine is busy. Here only
// that counts which f called. The memory profile sees every object but one of a
// few bytes that finds room in the block of another.
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

// profiled counts the objects that the memory profile knows of, by the functions
// between the allocation and the named one.
func profiled(name string) map[string]int64 {
	for range 2 { // the profile is that of the last but one cycle
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

// isTypeCache tells the caches that the runtime keeps of what an interface was asked
// for, at each place that asks, such as errors.Is: it makes one at a random time, and
// a larger one when it meets a new type there. A process has a bounded number of them.
func isTypeCache(stack string) bool {
	return strings.Contains(stack, "runtime.buildTypeAssertCache:") || strings.Contains(stack, "runtime.buildInterfaceSwitchCache:")
}

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

func TestAllocationsAreThoseOfTheFunctionItselfAndNoOther(t *testing.T) {
	var sink *[4]int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // a neighbour
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
