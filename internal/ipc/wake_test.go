package ipc

import (
	"sync/atomic"
	"testing"
	"time"
)

// pair returns both ends of a wake.
func pair() (control, host *Wake) {
	word := new(atomic.Uint64)
	return &Wake{word: word}, &Wake{word: word}
}

func TestWake_SignalEndsWait(t *testing.T) {
	control, host := pair()
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		host.Wait(time.Hour)
	}()
	time.Sleep(10 * time.Millisecond)
	control.Signal()
	<-woken
	control.Signal() // before the call
	control.Signal()
	host.Wait(time.Hour)
}

func TestWake_WaitEndsAtTimeout(t *testing.T) {
	_, host := pair()
	host.Wait(time.Millisecond)
	host.Wait(0)
	host.Wait(-time.Second)
}

func TestWake_SignalAllocatesNothing(t *testing.T) {
	control, _ := pair()
	if n := testing.AllocsPerRun(100, control.Signal); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
