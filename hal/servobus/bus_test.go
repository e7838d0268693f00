package servobus_test

import (
	"bytes"
	"fmt"
	"log"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
	"optibfm/hal/servobus"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

// toy is a minimal protocol. Requests: 'R' or 'W', register, size, length of the rest, rest.
// Status packets: 'A', ID, size, data, the sum of the data.
type toy struct{}

func (toy) AppendRead([]byte, byte, int, int) []byte { panic("not used") }

func (toy) AppendSyncRead(dst []byte, register, size int, ids []byte) []byte {
	return append(append(dst, 'R', byte(register), byte(size), byte(len(ids))), ids...)
}

func (toy) AppendSyncWrite(dst []byte, register, size int, data []byte) []byte {
	return append(append(dst, 'W', byte(register), byte(size), byte(len(data))), data...)
}

const toyHead = 3

func (toy) Decode(b []byte) (servobus.Status, int, error) {
	start := bytes.IndexByte(b, 'A')
	if start < 0 {
		return servobus.Status{}, len(b), servobus.ErrIncomplete
	}
	rest := b[start:]
	if len(rest) < toyHead || len(rest) < toyHead+int(rest[2])+1 {
		return servobus.Status{}, start, servobus.ErrIncomplete
	}
	size := int(rest[2])
	data, sum := rest[toyHead:toyHead+size], rest[toyHead+size]
	for _, v := range data {
		sum -= v
	}
	if sum != 0 {
		return servobus.Status{}, start + 1, hal.ErrChecksum
	}
	return servobus.Status{ID: rest[1], Data: data}, start + toyHead + size + 1, nil
}

// answerOf returns an answer of size bytes: the ID, 1 and zeros.
func answerOf(id byte, size int) []byte {
	p := make([]byte, toyHead+size+1)
	p[0], p[1], p[2], p[3], p[4], p[toyHead+size] = 'A', id, byte(size), id, 1, id+1
	return p
}

func answerAll(ids []byte, size int) (all []byte) {
	for _, id := range ids {
		all = append(all, answerOf(id, size)...)
	}
	return all
}

// serve answers each sync read with the bytes that answer returns.
func serve(line *serialtest.Line, answer func(ids []byte, size int) []byte) {
	buf := make([]byte, 256)
	for {
		n, err := line.Read(buf)
		if err != nil {
			return
		}
		if n >= 4 && buf[0] == 'R' {
			_, _ = line.Write(answer(buf[4:n], int(buf[2])))
		}
	}
}

// newBus returns a bus of n servos with the IDs 1 to n.
func newBus(answer func(ids []byte, size int) []byte, n int) (*servobus.Bus, func(), error) {
	line, err := serialtest.Open()
	if err != nil {
		return nil, nil, err
	}
	go serve(line, answer)
	port, err := serial.Open(serial.Config{Path: line.Path})
	if err != nil {
		return nil, nil, err
	}
	servos := []servobus.Servo{{Name: "one", ID: 1}, {Name: "two", ID: 2}, {Name: "three", ID: 3}}
	b := servobus.New("toy", port, toy{}, servos[:n])
	b.SetTimeout(500 * time.Millisecond)
	return b, func() { _ = port.Close(); _ = line.Close() }, nil
}

func startBus(t *testing.T, answer func(ids []byte, size int) []byte, n int) *servobus.Bus {
	t.Helper()
	b, end, err := newBus(answer, n)
	fatal.If(t, err)
	t.Cleanup(end)
	return b
}

func TestBus_AcceptsAnswersInAnyOrderAfterNoise(t *testing.T) {
	b := startBus(t, func(_ []byte, size int) []byte {
		return append([]byte("noise"), answerAll([]byte{3, 1, 2}, size)...)
	}, 3)
	fatal.If(t, errtest.Of(b.SyncRead(0, 2)))
	for i := range 3 {
		if got := b.Data(i)[0]; got != byte(i+1) {
			t.Errorf("servo %d: %d", i, got)
		}
	}
	if b.Faults != (hal.Faults{}) {
		t.Errorf("%+v", b.Faults)
	}
}

func TestBus_RepeatsReadForMissingServosWithFirstLast(t *testing.T) {
	asked := make(chan []byte, 10)
	b := startBus(t, func(ids []byte, size int) []byte {
		asked <- bytes.Clone(ids)
		if len(ids) == 3 {
			return answerOf(2, size)
		}
		return answerAll(ids, size)
	}, 3)
	fatal.If(t, errtest.Of(b.SyncRead(0, 2)))
	if first, second := <-asked, <-asked; !bytes.Equal(first, []byte{1, 2, 3}) || !bytes.Equal(second, []byte{3, 1}) {
		t.Errorf("asked %v, then %v", first, second)
	}
	if b.Faults != (hal.Faults{Timeout: 2, Recovered: 2}) {
		t.Errorf("%+v", b.Faults)
	}
}

func TestBus_AttributesDamagedAnswerToServoInTurn(t *testing.T) {
	b := startBus(t, func(ids []byte, size int) []byte {
		all := answerAll(ids, size)
		if len(ids) == 3 {
			all[2*len(all)/3-1]++ // the checksum of the second
		}
		return all
	}, 3)
	fatal.If(t, errtest.Of(b.SyncRead(0, 2)))
	if b.Faults != (hal.Faults{Checksum: 1, Recovered: 1}) {
		t.Errorf("%+v", b.Faults)
	}
}

func TestBus_IgnoresAnswersThatArriveUpToTwoReadsLate(t *testing.T) {
	value := byte(0) // of the newest answer
	var late []byte
	b := startBus(t, func(ids []byte, size int) []byte {
		value++
		answer := answerOf(1, size)
		answer[toyHead], answer[len(answer)-1] = value, value+1
		late = append(late, answer...)
		if value <= servobus.MaxExtra {
			return nil
		}
		return late
	}, 1)
	errtest.Is(t, errtest.Of(b.SyncRead(0, 2)), hal.ErrTimeout)
	fatal.If(t, errtest.Of(b.SyncRead(0, 2)))
	if got := b.Data(0)[0]; got != 3 {
		t.Errorf("the third read returns the answer to read %d", got)
	}
}

func TestBus_EndsAtDeadlineOnEndlessNoise(t *testing.T) {
	b := startBus(t, func([]byte, int) []byte { return bytes.Repeat([]byte{'x'}, 60_000) }, 3)
	errtest.Is(t, b.SyncReadOnce(0, 2), hal.ErrTimeout)
	if b.Faults.Timeout != 3 {
		t.Errorf("%+v", b.Faults)
	}
}

func TestBus_DetectsSilenceLongerThanDeadman(t *testing.T) {
	b := startBus(t, answerAll, 3)
	write := func() {
		t.Helper()
		fatal.If(t, b.WriteAll(0, 1))
	}
	write()
	b.WatchSilence(time.Hour)
	if write(); b.SilenceExceeded() {
		t.Error("exceeded at once")
	}
	b.WatchSilence(time.Nanosecond) // any pause exceeds it
	if write(); !b.SilenceExceeded() {
		t.Error("not exceeded")
	}
	b.WatchSilence(0)
	if write(); b.SilenceExceeded() {
		t.Error("exceeded after the watch ended")
	}
}

// A bus of three servos with a minimal protocol.
func Example() {
	b, end, err := newBus(answerAll, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	if _, err := b.SyncRead(0, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Data(0)[:2], b.Data(1)[:2], b.Data(2)[:2])
	// Output: [1 1] [2 1] [3 1]
}
