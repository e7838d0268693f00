package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"optibfm/controller"
	"optibfm/internal/fatal"
	"optibfm/internal/rigtest"
	"optibfm/rewardsrc"
)

func TestRun_LearnsNothingFromPressesWhileTheRobotIsStopped(t *testing.T) {
	t.Parallel()
	r := prepareAttended(t, "", "operator.source=console", "controller.gate.kappa=50",
		"controller.credit.delay_s=0", "controller.credit.width_s=0")
	stdin, err := r.cmd.StdinPipe()
	fatal.If(t, err)
	r.start()
	expect := func(line, answer string) {
		t.Helper()
		rigtest.WriteString(t, stdin, line)
		if !rigtest.WaitUntil(20*time.Second, func() bool { return strings.Contains(r.output.String(), answer) }) {
			t.Fatalf("no answer %q to %q:\n%s", answer, line, r.output)
		}
	}
	r.arm()
	expect("+\n", "saved 1\n")
	r.must("stop", "stopped")
	answers := func() int {
		return strings.Count(r.output.String(), "saved ") + strings.Count(r.output.String(), "refused ")
	}
	// The host process detects the stop some milliseconds later, from the ticks.
	if !rigtest.WaitUntil(20*time.Second, func() bool {
		before := answers()
		rigtest.WriteString(t, stdin, "-\n")
		rigtest.WaitUntil(20*time.Second, func() bool { return answers() > before })
		return strings.Contains(r.output.String(), "refused the robot was stopped or starting\n")
	}) {
		t.Fatalf("no press was refused:\n%s", r.output)
	}
	saved := strings.Count(r.output.String(), "saved ")
	expect("u\n", fmt.Sprintf("saved %d\n", saved+1))
	before, err := r.say("status")
	fatal.If(t, err)
	if !rigtest.WaitUntil(20*time.Second, func() bool {
		c, err := r.say("status")
		return err == nil && c.Tick > before.Tick+2
	}) {
		t.Fatalf("no ticks:\n%s", r.output)
	}
	fatal.If(t, r.End())
	log := onlyLog(t, r.cmd)
	outcomes := map[rewardsrc.Kind]int{}
	refusals := 0
	for entry, err := range log.Records() {
		fatal.If(t, err)
		if entry.Event != nil && strings.Contains(entry.Event.Text, "the robot was stopped or starting") {
			refusals++
		}
		if entry.Tick == nil {
			continue
		}
		for _, l := range entry.Tick.Labels[:entry.Tick.NumLabels] {
			if l.Outcome == controller.Applied {
				outcomes[l.Kind]++
			}
			if l.Outcome == controller.Applied && l.Value < 0 && l.Kind == rewardsrc.Value {
				t.Errorf("label %d of the stopped robot was applied", l.ID)
			}
		}
	}
	if outcomes[rewardsrc.Value] != 1 || outcomes[rewardsrc.Undo] != 1 || refusals == 0 {
		t.Errorf("applied %v, %d refusals in the log:\n%s", outcomes, refusals, r.output)
	}
	checkVerified(t, log)
}
