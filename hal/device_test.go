package hal

import (
	"errors"
	"fmt"
	"testing"
)

func TestFaults_CountByKind(t *testing.T) {
	var f Faults
	for _, err := range []error{ErrTimeout, ErrChecksum, ErrShort, ErrProtocol, ErrDevice, ErrBus, ErrStale} {
		f.Count(fmt.Errorf("imu: %w", err))
	}
	f.Count(errors.New("something else"))
	if want := (Faults{Timeout: 1, Checksum: 1, Short: 1, Protocol: 1, Device: 1, Bus: 2, Stale: 1}); f != want {
		t.Errorf("found %+v, want %+v", f, want)
	}
}

func TestFaults_CountAllocatesNothing(t *testing.T) {
	var f Faults
	err := fmt.Errorf("imu: %w", ErrStale)
	if n := testing.AllocsPerRun(100, func() { f.Count(err) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
