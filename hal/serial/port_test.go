package serial

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"optibfm/hal"
	"optibfm/hal/monotonic"
	"optibfm/hal/serial/serialtest"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func connect(t *testing.T, c Config) (*Port, *serialtest.Line) {
	t.Helper()
	line, err := serialtest.Open()
	fatal.If(t, err)
	t.Cleanup(func() { _ = line.Close() })
	c.Path = line.Path
	port, err := Open(c)
	fatal.If(t, err)
	t.Cleanup(func() { _ = port.Close() })
	return port, line
}

// soon is a hang guard.
func soon() int64 { return monotonic.After(20 * time.Second) }

func TestPort_TransfersEveryByteValueBothWays(t *testing.T) {
	port, line := connect(t, Config{})
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	fatal.If(t, port.Write(all, soon()))
	got := make([]byte, 256)
	for n := 0; n < len(got); {
		k, err := line.Read(got[n:])
		fatal.If(t, err)
		n += k
	}
	if !bytes.Equal(got, all) {
		t.Errorf("the far end received %x", got)
	}
	fatal.If(t, errtest.Of(line.Write(all)))
	back := make([]byte, 256)
	if n, err := port.ReadFull(back, soon()); err != nil || !bytes.Equal(back, all) {
		t.Errorf("%d bytes, %v: %x", n, err, back)
	}
}

func TestOpen_SetsNonStandardBaudRate(t *testing.T) {
	port, _ := connect(t, Config{Baud: 123_457, Parity: Even})
	got, err := unix.IoctlGetTermios(port.fd, unix.TCGETS2)
	fatal.If(t, err)
	if got.Ospeed != 123_457 || got.Ispeed != 123_457 {
		t.Errorf("rates %d, %d", got.Ispeed, got.Ospeed)
	}
	if got.Cflag&unix.CBAUD != unix.BOTHER {
		t.Errorf("c_cflag %x", got.Cflag)
	}
}

func TestPort_ReadTimesOutAtDeadline(t *testing.T) {
	port, line := connect(t, Config{})
	fatal.If(t, errtest.Of(line.Write([]byte{1, 2, 3})))
	deadline := monotonic.After(5 * time.Millisecond)
	n, err := port.ReadFull(make([]byte, 4), deadline)
	if n != 3 || !errors.Is(err, hal.ErrTimeout) {
		t.Errorf("%d bytes, %v", n, err)
	}
	if monotonic.Now() < deadline {
		t.Error("returned before the deadline")
	}
	if port.Lost() {
		t.Error("lost after a timeout")
	}
}

func TestPort_WriteTimesOutWhenLineIsFull(t *testing.T) {
	port, _ := connect(t, Config{})
	errtest.Is(t, port.Write(make([]byte, 1<<20), monotonic.After(5*time.Millisecond)), hal.ErrTimeout)
}

func TestPort_DrainDiscardsLateAnswer(t *testing.T) {
	port, line := connect(t, Config{})
	fatal.If(t, errtest.Of(line.Write([]byte("late"))))
	one := make([]byte, 1)
	if _, err := port.ReadFull(one, soon()); err != nil { // it has arrived
		t.Fatal(err)
	}
	fatal.If(t, port.Drain())
	fatal.If(t, errtest.Of(line.Write([]byte("new"))))
	answer := make([]byte, 3)
	if _, err := port.ReadFull(answer, soon()); err != nil || string(answer) != "new" {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestPort_ReportsBusErrorAfterUnplug(t *testing.T) {
	port, line := connect(t, Config{})
	fatal.If(t, errtest.Of(line.Write([]byte{7})))
	fatal.If(t, line.Close())
	buf := make([]byte, 1)
	for range 2 {
		if _, err := port.Read(buf, soon()); err != nil && !errors.Is(err, hal.ErrBus) {
			t.Error(err)
		}
	}
	if !port.Lost() {
		t.Fatal("not lost")
	}
	for name, err := range map[string]error{
		"write": port.Write(buf, soon()),
		"drain": port.Drain(),
	} {
		errtest.Is(t, err, hal.ErrBus, name)
	}
}

func TestPort_RecoversOnlyNamedDevices(t *testing.T) {
	for _, named := range []bool{true, false} {
		line, err := serialtest.Open()
		fatal.If(t, err)
		defer line.Close()
		path := line.Path
		if named {
			path = serialtest.Link(t, path).Path
		}
		port, err := Open(Config{Path: path})
		fatal.If(t, err)
		defer port.Close()
		errtest.Nil(t, port.Recover(), "a working port")
		fatal.If(t, port.Close())
		errtest.Is(t, port.Write([]byte{1}, soon()), hal.ErrLost, "write on a closed port")
		if err := port.Recover(); (err == nil) != named || port.Lost() == named {
			t.Errorf("named %v: %v, lost %v", named, err, port.Lost())
		}
		if !named {
			continue
		}
		fatal.If(t, port.Write([]byte{42}, soon()))
		got := make([]byte, 1)
		if _, err := line.Read(got); err != nil || got[0] != 42 {
			t.Errorf("%v, %v", got, err)
		}
		port.lose()
		port.retry = soon()
		errtest.Is(t, port.Recover(), hal.ErrBus, "an attempt before its time")
	}
}

func TestOpen_RefusesPortInUse(t *testing.T) {
	_, line := connect(t, Config{})
	if second, err := Open(Config{Path: line.Path}); err == nil {
		_ = second.Close()
		t.Error("the port was opened twice")
	}
}

func TestPort_ReadsBackAndComparesEcho(t *testing.T) {
	for _, test := range []struct {
		name string
		flip byte
		want error
	}{{"as sent", 0, nil}, {"collision", 0x10, hal.ErrBus}} {
		t.Run(test.name, func(t *testing.T) {
			port, line := connect(t, Config{Echo: true})
			sent := bytes.Repeat([]byte{1, 2, 3, 4}, 40)
			go func() {
				heard := make([]byte, len(sent))
				for n := 0; n < len(heard); {
					k, err := line.Read(heard[n:])
					if err != nil {
						return
					}
					n += k
				}
				heard[100] ^= test.flip
				_, _ = line.Write(append(heard, 99))
			}()
			err := port.Write(sent, soon())
			if !errors.Is(err, test.want) {
				t.Fatal(err)
			}
			if test.want != nil {
				return
			}
			answer := make([]byte, 1)
			if _, err := port.ReadFull(answer, soon()); err != nil || answer[0] != 99 {
				t.Errorf("%v, %v", answer, err)
			}
		})
	}
}

func TestOpen_RefusesInvalidConfig(t *testing.T) {
	line, err := serialtest.Open()
	fatal.If(t, err)
	defer line.Close()
	for _, c := range []Config{
		{},
		{Path: line.Path, Baud: -1},
		{Path: line.Path, Baud: 1 << 30},
		{Path: line.Path, Parity: "mark"},
		{Path: line.Path, RS485: true}, // a pseudo-terminal has no RS-485 mode
		{Path: "/dev/null"},
		{Path: "/nonexistent/tty"},
	} {
		if port, err := Open(c); err == nil {
			_ = port.Close()
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestConfig_WireTimeCountsStartStopAndParityBits(t *testing.T) {
	if d := (Config{Baud: 10_000}).WireTime(3); d != 3*time.Millisecond {
		t.Error(d)
	}
	if d := (Config{Baud: 11_000, Parity: Odd}).WireTime(5); d != 5*time.Millisecond {
		t.Error(d)
	}
}

func TestPort_DoesNotAllocate(t *testing.T) {
	port, line := connect(t, Config{Echo: true})
	go func() {
		buf := make([]byte, 64)
		for {
			n, err := line.Read(buf)
			if err != nil {
				return
			}
			if _, err := line.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	request, answer := []byte{1, 2, 3, 4}, make([]byte, 4)
	n := testing.AllocsPerRun(100, func() {
		fatal.If(t, port.Write(request, soon()))
		fatal.If(t, port.Drain())
		if _, err := port.Read(answer, monotonic.After(0)); !errors.Is(err, hal.ErrTimeout) {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPort_InterruptEndsRead(t *testing.T) {
	port, line := connect(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	end := port.Interrupt(ctx)
	go func() {
		_, _ = line.Read(make([]byte, 1)) // the request
		cancel()
	}()
	const guard = 2 * time.Minute
	fatal.If(t, port.Write([]byte{1}, monotonic.After(guard)))
	errtest.Is(t, errtest.Of(port.Read(make([]byte, 1), monotonic.After(guard))), context.Canceled, "read")
	errtest.Is(t, port.Write([]byte{1}, monotonic.After(guard)), context.Canceled, "write")
	end()
	if _, err := port.Read(make([]byte, 1), monotonic.After(time.Millisecond)); !errors.Is(err, hal.ErrTimeout) {
		t.Errorf("after end: %v", err)
	}
}
