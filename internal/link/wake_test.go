package link

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pair returns both ends of an eventfd.
func pair(t *testing.T) (control, host *Wake) {
	t.Helper()
	control, err := NewWake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	fd, err := unix.Dup(control.fd)
	if err != nil {
		t.Fatal(err)
	}
	if host, err = OpenWake(uintptr(fd)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	return control, host
}

func TestWake_SignalEndsWait(t *testing.T) {
	control, host := pair(t)
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		host.Wait(time.Hour)
	}()
	control.Signal()
	<-woken
	control.Signal() // before the call
	control.Signal()
	host.Wait(time.Hour)
}

func TestWake_WaitEndsAtTimeoutAndAfterClose(t *testing.T) {
	_, host := pair(t)
	host.Wait(time.Millisecond)
	if err := host.Close(); err != nil {
		t.Fatal(err)
	}
	host.Wait(time.Millisecond)
	var none *Wake
	none.Signal()
}

func TestWake_SignalAllocatesNothing(t *testing.T) {
	control, _ := pair(t)
	if n := testing.AllocsPerRun(100, control.Signal); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
