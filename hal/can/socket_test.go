package can_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/can"
	"optibfm/hal/can/cantest"
	"optibfm/hal/monotonic"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// soon is a hang guard.
func soon() int64 { return monotonic.After(20 * time.Second) }

// echo answers every frame with the same one.
func echo(b *cantest.Bus, f can.Frame) { b.Send(f) }

func connect(t *testing.T) (*can.Socket, *cantest.Bus) {
	t.Helper()
	bus, err := cantest.New(echo)
	fatal.If(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	s, err := can.Open(bus.Address)
	fatal.If(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, bus
}

var frames = []can.Frame{
	{ID: 0},
	{ID: 0x7FF, Len: 8, Data: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}},
	{ID: 0x1FFFFFFF, Extended: true, Len: 3, Data: [8]byte{9, 8, 7}},
	{ID: 1, Extended: true},
	{ID: 0x123, Remote: true, Len: 2},
}

func TestSocket_RoundTripsFrames(t *testing.T) {
	s, _ := connect(t)
	for _, f := range frames {
		fatal.If(t, s.Send(&f, soon()))
		var back can.Frame
		if err := s.Receive(&back, soon()); err != nil || back != f {
			t.Errorf("%+v came back as %+v, %v", f, back, err)
		}
	}
}

func TestFrame_MarshalsKernelLayout(t *testing.T) {
	// struct can_frame of linux/can.h: can_id with flags in the host's order,
	// len, three bytes unused, data from byte 8.
	var raw [can.Size]byte
	f := can.Frame{ID: 0x12345678, Extended: true, Remote: true, Len: 2, Data: [8]byte{0xAA, 0xBB}}
	f.Marshal(&raw)
	if id := binary.NativeEndian.Uint32(raw[:]); id != 0x80000000|0x40000000|0x12345678 {
		t.Errorf("%x", id)
	}
	if raw[4] != 2 || raw[8] != 0xAA || raw[9] != 0xBB {
		t.Errorf("%x", raw)
	}
}

func TestSocket_ReceiveTimesOutAtDeadline(t *testing.T) {
	s, _ := connect(t)
	var f can.Frame
	deadline := monotonic.After(5 * time.Millisecond)
	errtest.Is(t, s.Receive(&f, deadline), hal.ErrTimeout)
	if monotonic.Now() < deadline {
		t.Error("returned before the deadline")
	}
}

func TestSocket_FailsAtOnceDuringBusOff(t *testing.T) {
	s, bus := connect(t)
	settle(t, s)
	bus.Report(unix.CAN_ERR_BUSOFF)
	var f can.Frame
	if err := s.Receive(&f, soon()); !errors.Is(err, hal.ErrBus) || !s.BusOff() {
		t.Fatalf("%v, bus-off %v", err, s.BusOff())
	}
	errtest.Is(t, s.Send(&frames[0], soon()), hal.ErrBus, "send")
	errtest.Is(t, s.Receive(&f, monotonic.After(time.Hour)), hal.ErrBus, "receive")
	bus.Report(unix.CAN_ERR_RESTARTED)
	for s.BusOff() { // no frame follows the controller's restart
		_ = s.Receive(&f, monotonic.After(10*time.Millisecond))
	}
	settle(t, s)
}

// settle sends a frame and waits for its echo: what the bus sent before has then arrived.
func settle(t *testing.T, s *can.Socket) {
	t.Helper()
	var f can.Frame
	fatal.If(t, s.Send(&frames[1], soon()))
	if err := s.Receive(&f, soon()); err != nil || f != frames[1] {
		t.Fatalf("%+v, %v", f, err)
	}
}

func TestSocket_SkipsOrdinaryErrorFrames(t *testing.T) {
	s, bus := connect(t)
	settle(t, s)
	for class := uint32(1); class <= unix.CAN_ERR_CNT; class <<= 1 {
		if class != unix.CAN_ERR_BUSOFF && class != unix.CAN_ERR_RESTARTED {
			bus.Report(class)
		}
	}
	settle(t, s)
	if s.BusOff() {
		t.Error("bus-off")
	}
}

func TestSocket_ReportsBusErrorAfterInterfaceIsLost(t *testing.T) {
	s, bus := connect(t)
	settle(t, s)
	fatal.If(t, bus.Close())
	var f can.Frame
	for name, err := range map[string]error{
		"receive": s.Receive(&f, soon()), "send": s.Send(&frames[0], soon()), "reopen": s.Reopen(),
	} {
		errtest.Is(t, err, hal.ErrBus, name)
	}
	if !s.Lost() {
		t.Error("not lost")
	}
}

func TestOpen_RefusesUnusableAddress(t *testing.T) {
	for _, address := range []string{"", "nonexistent0", "unix:/nonexistent", "lo"} {
		if s, err := can.Open(address); err == nil {
			_ = s.Close()
			t.Errorf("%q was opened", address)
		}
	}
}

func TestSocket_DoesNotAllocate(t *testing.T) {
	s, _ := connect(t)
	f := frames[1]
	n := testing.AllocsPerRun(50, func() {
		fatal.If(t, s.Send(&f, soon()))
		fatal.If(t, s.Receive(&f, soon()))
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzUnmarshal(f *testing.F) {
	f.Add(make([]byte, can.Size))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != can.Size {
			return
		}
		var frame, back can.Frame
		raw := [can.Size]byte(b)
		isError, err := frame.Unmarshal(&raw)
		if err != nil || isError {
			return
		}
		frame.Marshal(&raw)
		if _, err := back.Unmarshal(&raw); err != nil || back != frame {
			t.Fatalf("%+v came back as %+v, %v", frame, back, err)
		}
	})
}

// A frame and its answer. The bus is a fake that echoes every frame.
func Example() {
	bus, err := cantest.New(echo)
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()
	s, err := can.Open(bus.Address) // on a robot: "can0"
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	deadline := monotonic.After(time.Second)
	if err := s.Send(&can.Frame{ID: 0x42, Len: 1, Data: [8]byte{7}}, deadline); err != nil {
		log.Fatal(err)
	}
	var f can.Frame
	if err := s.Receive(&f, deadline); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%#x %v\n", f.ID, f.Data[:f.Len])
	// Output: 0x42 [7]
}

func TestSocket_InterruptEndsReceive(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	bus, err := cantest.New(func(*cantest.Bus, can.Frame) { cancel() }) // no answer
	fatal.If(t, err)
	defer bus.Close()
	s, err := can.Open(bus.Address)
	fatal.If(t, err)
	defer s.Close()
	end := s.Interrupt(ctx)
	guard := soon()
	f := can.Frame{ID: 1}
	fatal.If(t, s.Send(&f, guard))
	errtest.Is(t, s.Receive(&f, guard), context.Canceled, "receive")
	errtest.Is(t, s.Send(&f, guard), context.Canceled, "send")
	end()
	errtest.Nil(t, s.Send(&f, guard), "after end")
}
