package rtloop

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The Go scheduler takes the slot of the control thread every 10 ms and gives it to another thread
// of the process, which hands it back when the kernel runs it: on a busy computer after tens of
// milliseconds. Therefore the other threads have a real-time priority too.

const (
	// belowLoop is the distance of the priority of the other threads to that of the control thread.
	belowLoop = 10
	// spareThreads are created in advance: the Go runtime creates a thread only if none is idle,
	// and a new one has the ordinary priority until the next look.
	spareThreads = 8
	// lookEvery is the time between two looks at the threads.
	lookEvery = 25 * time.Millisecond
	// busyShare is the share of one processor above which the other threads count as busy.
	busyShare = 0.75
	// busyLimit is the time after which busy threads lose the priority, calmLimit that after which
	// calm ones regain it.
	busyLimit, calmLimit = 200 * time.Millisecond, time.Second
	// leak is how much of that time a look takes back that finds the contrary: threads that are
	// busy in more than busyShare of the looks lose the priority, in any order.
	leak = busyShare / (1 - busyShare)
)

// companions are the threads of this process besides those with SCHED_FIFO.
type companions struct {
	priority int
	loop     int // the control thread
	task     int // descriptor of /proc/self/task
	clock    clock
	stop     atomic.Bool
	done     chan struct{}
	demotion demotion
	demoted  atomic.Uint64 // how often they lost the priority
	failed   atomic.Uint32 // the error number of the newest look, 0 for none
	names    [4096]byte    // of the threads, as the kernel writes them
}

// startCompanions raises the other threads below the priority of the control thread, and watches
// them.
func startCompanions(priority, loop int) (*companions, error) {
	task, err := unix.Open("/proc/self/task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/proc/self/task: %w", err)
	}
	c := &companions{
		priority: max(1, priority-belowLoop), loop: loop, task: task, clock: monotonic{}, done: make(chan struct{}),
	}
	createThreads(spareThreads)
	if errno := c.each(unix.SCHED_NORMAL, unix.SCHED_RR, c.priority); errno != 0 {
		c.each(unix.SCHED_RR, unix.SCHED_NORMAL, 0)
		return nil, errors.Join(errno, unix.Close(task))
	}
	ready := make(chan struct{})
	go c.thread(min(priority+1, 99), ready)
	<-ready
	return c, nil
}

// createThreads makes the runtime create n threads, which are idle afterwards.
func createThreads(n int) {
	var created, ended sync.WaitGroup
	release := make(chan struct{})
	for range n {
		created.Add(1)
		ended.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			created.Done()
			<-release
		})
	}
	created.Wait()
	close(release)
	ended.Wait()
}

// demotions returns the number of times that the threads lost the priority.
func (c *companions) demotions() uint64 {
	if c == nil {
		return 0
	}
	return c.demoted.Load()
}

// err returns the reason why the newest look could not change the priority of a thread.
func (c *companions) err() error {
	if c == nil {
		return nil
	}
	if errno := unix.Errno(c.failed.Load()); errno != 0 {
		return errno
	}
	return nil
}

// Stop gives the threads the ordinary scheduler again.
func (c *companions) Stop() {
	c.stop.Store(true)
	<-c.done
	c.failed.Store(uint32(c.each(unix.SCHED_RR, unix.SCHED_NORMAL, 0)))
	_ = unix.Close(c.task)
}

// thread looks at the threads. Its priority is above that of the control thread, so that no busy
// thread delays it. It is never unlocked from its goroutine, and ends with it.
func (c *companions) thread(priority int, ready chan<- struct{}) {
	defer close(c.done)
	runtime.LockOSThread()
	_ = setFIFO(priority) // that of the control thread was granted
	close(ready)
	last, used := c.clock.now(), c.used()
	for !c.stop.Load() {
		c.clock.sleepUntil(last + int64(lookEvery))
		now, usedNow := c.clock.now(), c.used()
		c.look(time.Duration(usedNow-used), time.Duration(now-last))
		last, used = now, usedNow
	}
}

// look raises new threads, and lowers all while they are busy. It allocates nothing.
func (c *companions) look(used, passed time.Duration) {
	if c.demotion.observe(used, passed) && c.demotion.active {
		c.demoted.Add(1)
	}
	from, to, priority := unix.SCHED_NORMAL, unix.SCHED_RR, c.priority
	if c.demotion.active {
		from, to, priority = unix.SCHED_RR, unix.SCHED_NORMAL, 0
	}
	c.failed.Store(uint32(c.each(from, to, priority))) // the next look tries again
}

// demotion decides whether threads are too busy for a real-time priority.
type demotion struct {
	active  bool
	against time.Duration // a leaky sum of the time in which they were busy, or calm while it is active
}

// observe takes the processor time that the threads used in a time. It reports a change.
func (d *demotion) observe(used, passed time.Duration) (changed bool) {
	busy := float64(used) >= busyShare*float64(passed)
	if busy == d.active {
		d.against = max(0, d.against-time.Duration(leak*float64(passed)))
		return false
	}
	d.against += passed
	limit := busyLimit
	if d.active {
		limit = calmLimit
	}
	if d.against < limit {
		return false
	}
	d.active, d.against = !d.active, 0
	return true
}

// used returns the processor time of the process without the control thread and this one, ns.
func (c *companions) used() int64 {
	return cpuTime(unix.CLOCK_PROCESS_CPUTIME_ID) - cpuTime(threadClock(c.loop)) - cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
}

// threadClock returns the clock of a thread's processor time, as pthread_getcpuclockid does.
func threadClock(tid int) int32 { return ^int32(tid)<<3 | 6 }

// cpuTime returns 0 for a thread that has ended.
func cpuTime(clock int32) int64 {
	var ts unix.Timespec
	unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

// each changes the policy of every thread that has another. It returns the first error, after it
// has tried all threads. Children of the threads get the ordinary scheduler: a program that a
// driver starts does not inherit the priority.
func (c *companions) each(from, to, priority int) (first unix.Errno) {
	if _, err := unix.Seek(c.task, 0, unix.SEEK_SET); err != nil {
		return errnoOf(err)
	}
	for {
		n, err := unix.Getdents(c.task, c.names[:])
		if err != nil || n <= 0 {
			return cmp.Or(first, errnoOf(err))
		}
		for rest := c.names[:n]; len(rest) > 0; {
			length := binary.NativeEndian.Uint16(rest[16:])
			if tid := number(rest[19:length]); tid > 0 {
				first = cmp.Or(first, setPolicy(tid, from, to, priority))
			}
			rest = rest[length:]
		}
	}
}

// errnoOf returns the number of an error of package unix, 0 for none.
func errnoOf(err error) unix.Errno {
	errno, _ := err.(unix.Errno)
	return errno
}

// number returns the number that a string of C begins with; 0 without one.
func number(name []byte) (n int) {
	for _, b := range name {
		if b < '0' || b > '9' {
			return n
		}
		n = 10*n + int(b-'0')
	}
	return n
}

const resetOnFork = 0x40000000 // SCHED_RESET_ON_FORK

// setPolicy changes the policy of a thread from one to another. It lowers no thread that another
// part of the program has raised. sched_setscheduler, unlike sched_setattr, keeps the nice value.
func setPolicy(tid, from, to, priority int) unix.Errno {
	policy, _, errno := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(tid), 0, 0)
	ours := policy&resetOnFork != 0 || from == unix.SCHED_NORMAL
	if errno == 0 && int(policy)&^resetOnFork == from && ours {
		parameter := int32(priority)
		_, _, errno = unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), uintptr(to|resetOnFork),
			uintptr(unsafe.Pointer(&parameter)))
	}
	if errno == unix.ESRCH { // it has ended
		return 0
	}
	return errno
}
