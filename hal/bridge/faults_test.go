package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"optibfm/hal"
	"optibfm/hal/bridge"
	"optibfm/hal/bridge/bridgetest"
	"optibfm/hal/haltest"
	"optibfm/internal/errtest"
)

// hangGuard is far above the time-outs of a drive, which add up to some seconds.
const hangGuard = 60 * time.Second

// drive uses a robot as a run does: it stops at the first error.
func drive(config bridge.Config) (err error) {
	robot, err := bridge.Dial(context.Background(), config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, robot.Close()) }()
	defer func() { err = errors.Join(err, robot.Halt()) }()
	obs, action := make([]float32, 2), make([]float32, 1)
	if err := robot.Arm(); err != nil {
		return err
	}
	if _, err := robot.Sense(obs); err != nil {
		return err
	}
	if err := robot.Reset(1); err != nil {
		return err
	}
	for range 6 {
		if _, err := robot.Sense(obs); err != nil {
			return err
		}
		if err := robot.Act(action); err != nil {
			return err
		}
	}
	return nil
}

// driven is how a drive ended, and what the server saw.
type driven struct {
	err error
	saw bridgetest.Report
}

// driveAll drives a robot of every server, many at a time: they mostly wait.
func driveAll(t *testing.T, cases []faultCase) []driven {
	t.Helper()
	const atATime = 32
	results, room := make([]driven, len(cases)), make(chan struct{}, atATime)
	var all sync.WaitGroup
	for i, c := range cases {
		server := bridgetest.Serve(t, bridgetest.Options{
			Spec: c.spec(), Free: c.mode == bridge.Free, At: c.at, After: c.after, Fault: c.fault,
		})
		room <- struct{}{}
		all.Go(func() {
			results[i].err = drive(c.config(server.Address))
			<-server.Ended()
			results[i].saw = server.Report()
			<-room
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(hangGuard):
		t.Fatal("a drive does not end")
	}
	return results
}

// faultCase is a line of the table stage × fault × mode.
type faultCase struct {
	mode     string
	at       bridgetest.Kind
	after    int
	fault    bridgetest.Fault
	measured bool // the welcome has version 2
}

func (c faultCase) spec() hal.Spec {
	spec := haltest.Spec(2, 1)
	if c.measured {
		spec.Action[0].Measured = hal.Measured{Obs: "o1", Scale: 2, Offset: -1}
	}
	return spec
}

var stages = []bridgetest.Kind{
	bridgetest.Hello, bridgetest.Arm, bridgetest.Sense, bridgetest.Reset, bridgetest.Act, bridgetest.Halt,
}

func faultCases() (list []faultCase) {
	for _, mode := range []string{bridge.Lockstep, bridge.Free} {
		for _, at := range stages {
			for _, fault := range bridgetest.Faults(at, mode == bridge.Free) {
				list = append(list, faultCase{mode: mode, at: at, fault: fault})
				if at == bridgetest.Act || at == bridgetest.Sense && mode == bridge.Free {
					list = append(list, faultCase{mode: mode, at: at, after: 2, fault: fault})
				}
			}
		}
		for _, fault := range bridgetest.MeasuredFaults() {
			list = append(list, faultCase{mode: mode, at: bridgetest.Hello, fault: fault, measured: true})
		}
	}
	return list
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s/%v %d/%s", c.mode, c.at, c.after, c.fault.Name)
}

// config has time-outs that a busy machine meets, and that end a hang soon.
func (c faultCase) config(address string) bridge.Config {
	return bridge.Config{Address: address, Mode: c.mode, TimeoutMs: 500, StaleMs: 600, StartTimeoutMs: 1500}
}

func TestRobot_HaltsAfterEveryServerFault(t *testing.T) {
	cases := faultCases()
	if len(cases) < 128 {
		t.Errorf("%d cases, want at least 128", len(cases))
	}
	t.Logf("%d cases", len(cases))
	for i, result := range driveAll(t, cases) {
		c, err, saw := cases[i], result.err, result.saw
		t.Run(c.String(), func(t *testing.T) {
			if err == nil || !bridgetest.Names(err, c.at) {
				t.Errorf("the error does not name the bridge and the stage: %v", err)
			}
			if !saw.Committed || saw.ActsAfter > c.fault.Acts || !saw.Halted {
				t.Errorf("the server saw %+v", saw)
			}
			if c.at == bridgetest.Hello { // no robot yet
				return
			}
			if lost := errors.Is(err, bridge.ErrLost); lost == c.fault.Mild && c.fault.Then != bridgetest.BeSlow {
				t.Errorf("lost is %v: %v", lost, err)
			}
			if saw.Bye != c.fault.Mild && c.fault.Then != bridgetest.BeSlow {
				t.Errorf("bye is %v", saw.Bye)
			}
		})
	}
}

func TestRobot_DrivesServerWithoutFaults(t *testing.T) {
	cases := []faultCase{{mode: bridge.Lockstep}, {mode: bridge.Free}, {mode: bridge.Free, measured: true}}
	for i, result := range driveAll(t, cases) {
		errtest.Nil(t, result.err, cases[i].mode)
		if saw := result.saw; saw.Acts != 6 || !saw.Bye || !saw.Halted {
			t.Errorf("%s: the server saw %+v", cases[i].mode, saw)
		}
	}
}
