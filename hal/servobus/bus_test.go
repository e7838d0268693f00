package servobus_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
	"optibfm/hal/servobus"
)

// toy is the smallest protocol there can be. Requests: 'R' or 'W', register,
// size, length of the rest, rest. Answers: 'A', ID, data of two bytes, their sum.
type toy struct{}

func (toy) AppendSyncRead(dst []byte, register, size int, ids []byte) []byte {
	return append(append(dst, 'R', byte(register), byte(size), byte(len(ids))), ids...)
}

func (toy) AppendSyncWrite(dst []byte, register, size int, data []byte) []byte {
	return append(append(dst, 'W', byte(register), byte(size), byte(len(data))), data...)
}

const toyAnswer = 5

func (toy) Take(b []byte) (servobus.Answer, int, error) {
	start := bytes.IndexByte(b, 'A')
	if start < 0 {
		return servobus.Answer{}, len(b), servobus.ErrIncomplete
	}
	rest := b[start:]
	if len(rest) < toyAnswer {
		return servobus.Answer{}, start, servobus.ErrIncomplete
	}
	if rest[2]+rest[3] != rest[4] {
		return servobus.Answer{}, start + 1, hal.ErrChecksum
	}
	return servobus.Answer{ID: rest[1], Data: rest[2:4]}, start + toyAnswer, nil
}

// answerOf is what servo id says.
func answerOf(id byte) []byte { return []byte{'A', id, id, 1, id + 1} }

// far answers each sync read with what say makes of it.
func far(line *serialtest.Line, say func(ids []byte) []byte) {
	buf := make([]byte, 256)
	for {
		n, err := line.Read(buf)
		if err != nil {
			return
		}
		if n >= 4 && buf[0] == 'R' {
			_, _ = line.Write(say(buf[4:n]))
		}
	}
}

func everyone(ids []byte) (all []byte) {
	for _, id := range ids {
		all = append(all, answerOf(id)...)
	}
	return all
}

func start(say func(ids []byte) []byte) (*servobus.Bus, func(), error) {
	line, err := serialtest.Open()
	if err != nil {
		return nil, nil, err
	}
	go far(line, say)
	port, err := serial.Open(serial.Config{Path: line.Path})
	if err != nil {
		return nil, nil, err
	}
	b := servobus.New("toy", port, toy{}, []servobus.Member{{Name: "one", ID: 1}, {Name: "two", ID: 2}, {Name: "three", ID: 3}})
	b.SetTimeout(50 * time.Millisecond)
	return b, func() { _ = port.Close(); _ = line.Close() }, nil
}

func bus(t *testing.T, say func(ids []byte) []byte) *servobus.Bus {
	t.Helper()
	b, end, err := start(say)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return b
}

func TestAnswersAreTakenInAnyOrderAndBehindNoise(t *testing.T) {
	b := bus(t, func([]byte) []byte {
		return append(append(append([]byte("noise"), answerOf(3)...), answerOf(1)...), answerOf(2)...)
	})
	if _, err := b.Gather(0, 2); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got := b.Answer(i)[0]; got != byte(i+1) {
			t.Errorf("member %d: %d", i, got)
		}
	}
	if b.Faults != (hal.Faults{}) {
		t.Errorf("%+v", b.Faults)
	}
}

func TestOnlyTheMissingAreAskedAgainAndTheFirstOfThemLast(t *testing.T) {
	asked := make(chan []byte, 10)
	b := bus(t, func(ids []byte) []byte {
		asked <- bytes.Clone(ids)
		if len(ids) == 3 {
			return answerOf(2)
		}
		return everyone(ids)
	})
	if _, err := b.Gather(0, 2); err != nil {
		t.Fatal(err)
	}
	if first, second := <-asked, <-asked; !bytes.Equal(first, []byte{1, 2, 3}) || !bytes.Equal(second, []byte{3, 1}) {
		t.Errorf("asked %v, then %v", first, second)
	}
	if b.Faults != (hal.Faults{Timeout: 2, Mended: 2}) {
		t.Errorf("%+v", b.Faults)
	}
}

func TestADamagedAnswerIsBlamedOnTheServoWhoseTurnItWas(t *testing.T) {
	b := bus(t, func(ids []byte) []byte {
		all := everyone(ids)
		if len(ids) == 3 {
			all[2*toyAnswer-1]++ // the checksum of the second
		}
		return all
	})
	if _, err := b.Gather(0, 2); err != nil {
		t.Fatal(err)
	}
	if b.Faults != (hal.Faults{Checksum: 1, Mended: 1}) {
		t.Errorf("%+v", b.Faults)
	}
}

func TestABabblingLineEndsAtTheDeadline(t *testing.T) {
	b := bus(t, func([]byte) []byte { return bytes.Repeat([]byte{'x'}, 60_000) })
	if err := b.GatherOnce(0, 2); !errors.Is(err, hal.ErrTimeout) {
		t.Error(err)
	}
	if b.Faults.Timeout != 3 {
		t.Errorf("%+v", b.Faults)
	}
}

func TestASilenceIsSeenBySendingAgain(t *testing.T) {
	b := bus(t, everyone)
	if err := b.SetAll(0, 1); err != nil {
		t.Fatal(err)
	}
	b.Guard(100 * time.Millisecond)
	if err := b.SetAll(0, 1); err != nil || b.Tripped() {
		t.Fatalf("%v, tripped %v", err, b.Tripped())
	}
	time.Sleep(110 * time.Millisecond)
	if err := b.SetAll(0, 1); err != nil || !b.Tripped() {
		t.Fatalf("%v, tripped %v", err, b.Tripped())
	}
	b.Guard(0)
	if b.Tripped() {
		t.Error("still tripped")
	}
}

// A bus of three servos with a protocol of its own.
func Example() {
	b, end, err := start(everyone)
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	if _, err := b.Gather(0, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(b.Answer(0)[:2], b.Answer(1)[:2], b.Answer(2)[:2])
	// Output: [1 1] [2 1] [3 1]
}
