package i2cbus

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"periph.io/x/conn/v3/i2c/i2ctest"
	"periph.io/x/conn/v3/physic"

	"optibfm/hal"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// failingBus fails with the errors given, one a transaction, then works.
type failingBus struct {
	errs  []error
	tries int
}

func (b *failingBus) String() string                  { return "bus" }
func (b *failingBus) SetSpeed(physic.Frequency) error { return nil }
func (b *failingBus) Tx(_ uint16, _, _ []byte) error {
	b.tries++
	if b.tries > len(b.errs) {
		return nil
	}
	return b.errs[b.tries-1]
}

func TestConn_ReadsAndWritesRegisters(t *testing.T) {
	bus := &i2ctest.Playback{DontPanic: true, Ops: []i2ctest.IO{
		{Addr: 0x40, W: []byte{0x06, 1, 2, 3}},
		{Addr: 0x40, W: []byte{0x06}, R: []byte{1, 2, 3}},
	}}
	c := NewConn(bus, 0x40, "chip")
	fatal.If(t, c.Write(0x06, 1, 2, 3))
	got := make([]byte, 3)
	if err := c.Read(0x06, got); err != nil || !slices.Equal(got, []byte{1, 2, 3}) {
		t.Errorf("read %x, %v", got, err)
	}
	errtest.Nil(t, bus.Close())
}

func TestConn_RetriesOnce(t *testing.T) {
	nack := syscall.EREMOTEIO
	for name, c := range map[string]struct {
		errs  []error
		tries int
		kind  error
		want  hal.Faults
	}{
		"works":            {nil, 1, nil, hal.Faults{}},
		"one fault":        {[]error{nack}, 2, nil, hal.Faults{Recovered: 1}},
		"two faults":       {[]error{nack, nack, nack}, 2, hal.ErrBus, hal.Faults{Bus: 1}},
		"a held bus":       {[]error{syscall.ETIMEDOUT, nack}, 1, hal.ErrTimeout, hal.Faults{Timeout: 1}},
		"held in the end":  {[]error{nack, syscall.ETIMEDOUT}, 2, hal.ErrTimeout, hal.Faults{Timeout: 1}},
		"short both times": {[]error{hal.ErrShort, hal.ErrShort}, 2, hal.ErrShort, hal.Faults{Short: 1}},
	} {
		bus := &failingBus{errs: c.errs}
		conn := NewConn(bus, 0x40, "chip")
		err := conn.Write(0)
		if !errors.Is(err, c.kind) || bus.tries != c.tries || conn.Faults() != c.want {
			t.Errorf("%s: %v after %d tries, %+v", name, err, bus.tries, conn.Faults())
		}
		const prefix = "chip at 0x40 on bus: "
		if err != nil && (!errors.Is(err, c.errs[c.tries-1]) || !strings.HasPrefix(err.Error(), prefix)) {
			t.Errorf("%s: %v does not say what happened, and where", name, err)
		}
	}
}

// slowBus fails late, with another error than a time-out.
type slowBus struct {
	failingBus
	takes time.Duration
}

func (b *slowBus) Timeout() time.Duration { return DefaultTimeout }
func (b *slowBus) Tx(addr uint16, w, r []byte) error {
	time.Sleep(b.takes)
	return b.failingBus.Tx(addr, w, r)
}

func TestConn_SkipsRetryWithoutTime(t *testing.T) {
	nack := syscall.EREMOTEIO
	bus := &slowBus{failingBus{errs: []error{nack, nack}}, DefaultTimeout - time.Millisecond}
	conn := NewConn(bus, 0x40, "chip")
	if err := conn.Write(0); !errors.Is(err, hal.ErrBus) || bus.tries != 1 {
		t.Errorf("%v after %d tries", err, bus.tries)
	}
	if most := conn.Timeout(); most != 12*time.Millisecond {
		t.Errorf("it takes %v at most: a time-out for the second try, and a fifth for the first", most)
	}
}

func TestConn_FailureAllocatesNothing(t *testing.T) {
	bus := &failingBus{errs: make([]error, 1000)}
	for i := range bus.errs {
		bus.errs[i] = syscall.EREMOTEIO
	}
	conn, data := NewConn(bus, 0x40, "chip"), make([]byte, 14)
	if n := testing.AllocsPerRun(100, func() {
		_ = conn.Read(1, data)
		_ = conn.Write(1, 2, 3)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestConn_PanicsOnOversizedWrite(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("it did not panic")
		}
	}()
	_ = NewConn(&failingBus{}, 0x40, "chip").Write(0, make([]byte, MaxWrite)...)
}

func TestConn_ReportsTransfersTheAdapterCannotMake(t *testing.T) {
	refused := syscall.EOPNOTSUPP
	err := NewConn(&failingBus{errs: []error{refused, refused}}, 0x40, "chip").Write(0, make([]byte, 64)...)
	errtest.Is(t, err, refused)
	errtest.Contains(t, err, "the adapter cannot make transfers of this length")
}
