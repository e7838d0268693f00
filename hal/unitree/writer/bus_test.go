package writer

import (
	"os"
	"testing"

	"optibfm/hal/unitree"
	"optibfm/hal/unitree/dds"
	"optibfm/hal/unitree/idl"
	"optibfm/internal/fatal"
)

// TestBus_TakesTheStatesOfTwoRobots has two robots that send in the same order between all cycles.
func TestBus_TakesTheStatesOfTwoRobots(t *testing.T) {
	l, err := dds.Open("")
	if err != nil && os.Getenv("OPTIBFM_TEST_DDS") != "required" {
		t.Skipf("%v", err)
	}
	fatal.If(t, err)
	const domain = 79 // package dds has those below
	p, err := l.Join(domain, unitree.Loopback)
	fatal.If(t, err)
	defer p.Close()
	b, err := newBus(p, unitree.Go2, use{})
	fatal.If(t, err)
	var robots [2]*dds.Writer[idl.Go2State]
	for i := range robots {
		robots[i], err = dds.NewWriter[idl.Go2State](p, TopicState, idl.Go2StateType)
		fatal.If(t, err)
	}
	s := newStates(unitree.Config{Model: unitree.Go2, StaleMS: 1e6}, b)
	sum := idl.NewSummer[idl.Go2State]()
	for cycle := range 10 {
		for _, r := range robots {
			m := r.Message()
			m.Tick, m.IMU.Quaternion[0] = uint32(cycle), 1
			m.CRC = sum.Sum(m)
			fatal.If(t, r.Write())
		}
		fatal.If(t, s.read(int64(cycle+1)*int64(Period)))
	}
	if s.received != 20 || s.mixedAt == 0 {
		t.Errorf("%d states, the last mixture at %d", s.received, s.mixedAt)
	}
}
