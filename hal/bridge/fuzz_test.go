package bridge

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"

	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
)

// FuzzServer lets a client send anything: the robot ends halted, never gets an
// action outside of its limits (the fake would count it), and nothing panics.
func FuzzServer(f *testing.F) {
	hi := frame(kindHello, 0, hello{mode: lockstep}.encode())
	f.Add(hi)
	f.Add(bytes.Join([][]byte{
		hi, frame(kindArm, 1, nil), frame(kindAct, 2, floats(0.5)), frame(kindReset, 3, u64(7)),
		frame(kindSense, 4, nil), frame(kindHalt, 5, nil), frame(kindBye, 6, nil),
	}, nil))
	f.Add(frame(kindHello, 0, hello{mode: free, task: "walk", deadman: 1e9}.encode()))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		sim := haltest.NewSimulator(haltest.Spec(2, 1))
		_ = serveOne(context.Background(), newScript(sent), sim)
		if !sim.Halted {
			t.Error("the robot is not halted")
		}
	})
}

// FuzzClient lets a server answer anything: every call ends, and what passes the
// checks is finite.
func FuzzClient(f *testing.F) {
	f.Add(true, append(frame(kindState, 1, aState(1, 2)), frame(kindState, 2, aState(3, 4))...))
	halted := frame(kindError, 2, encodeError(kindAct, CodeHalted, "halted"))
	f.Add(false, append(frame(kindState, 1, aState(1, 2)), halted...))
	f.Add(false, frame(kindOK, 1, nil))
	f.Add(true, []byte("HTTP/1.1 200 OK\r\n"))
	f.Fuzz(func(t *testing.T, inLockstep bool, received []byte) {
		m := welcome{mode: free, spec: haltest.Spec(2, 1)}
		if inLockstep {
			m.mode = lockstep
		}
		// poll ignores the descriptor -1.
		sock := &socket{fd: -1, buf: received, end: len(received)}
		r := newRobot(sock, m, 0, 1e9, haltTimeout)
		for range 4 {
			r.begin(kindSense)
			h, payload, err := r.answer(0)
			if err != nil || r.next.decode(h, payload) != nil || r.next.check(m.spec.Obs) != nil {
				continue
			}
			for _, v := range r.next.obs {
				if v-v != 0 {
					t.Errorf("%v is not finite", v)
				}
			}
		}
	})
}

// FuzzWelcome: what is accepted is a valid spec, is measured by observations only,
// and is encoded to the same bytes.
func FuzzWelcome(f *testing.F) {
	f.Add(aWelcome(lockstep))
	f.Add(aWelcome(free)[:40])
	f.Add([]byte(goldenWelcome))
	f.Add([]byte(goldenWelcome)[:len(goldenWelcome)-8])
	f.Add(aMeasuredWelcome("?", 1, 0))
	f.Add(aMeasuredWelcome("o1", math.NaN(), 0))
	f.Add(aMeasuredWelcome("", 0, 0))
	f.Fuzz(func(t *testing.T, payload []byte) {
		m, err := decodeWelcome(payload)
		if err != nil {
			return
		}
		errtest.Nil(t, errors.Join(m.spec.Validate(), checkMeasured(m.spec)))
		if m.version() == version1 && payload[len(magic)] == Version {
			return // it needs version 1 only
		}
		if !bytes.Equal(m.encode(), payload) {
			t.Error("it is encoded to other bytes")
		}
	})
}
