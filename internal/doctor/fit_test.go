package doctor

import (
	"slices"
	"strings"
	"testing"

	"optibfm/internal/rigtest"
)

func TestDoctor_ComparesChannelsAsARunDoes(t *testing.T) {
	for name, c := range rigtest.MismatchedModels {
		d := examined(t, fakeMachine(tree()), "rover", "model.bundle="+rigtest.RoverBundle(t, c.Change))
		verdict(t, name, d.bundle(), statusOK)
		verdict(t, name, d.fit(), statusFail, strings.TrimSpace(c.Shows))
	}
	set := []string{"model.bundle=" + rigtest.RoverBundle(t, rigtest.RemoveChannelNames)}
	for _, driver := range [][]string{nil, {"robot.driver=bridge", "robot.bridge.address=unix:/s"}} {
		d := examined(t, fakeMachine(tree()), "rover", append(slices.Clone(set), driver...)...)
		verdict(t, "unnamed", d.bundle(), statusOK)
		f := d.fit()
		if verdict(t, "unnamed", f, statusWarn, "have no names"); !f.Strict {
			t.Error("the warning is not a failure with posture strict")
		}
		d.file.Loop.Posture = "strict"
		verdict(t, "unnamed, strict", d.fit(), statusFail, "have no names")
	}
}
