package unitree

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"optibfm/hal/legged"
	"optibfm/hal/unitree/body"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
)

func valid(model string) Config {
	c := DefaultConfig()
	c.Model, c.Interface = model, Loopback
	c.Kp, c.Kd, c.DampingKd, c.MaxRate = []float64{30}, []float64{1}, []float64{4}, []float64{6}
	return c
}

func TestConfig_ValidateNamesKeys(t *testing.T) {
	onEth0 := func(c *Config) { c.Interface, c.PhysicalRobot = "eth0", true }
	for want, change := range map[string]func(*Config){
		"unitree: model: unknown":                 func(c *Config) { c.Model = "h1" },
		"unitree: interface: empty":               func(c *Config) { c.Interface = "" },
		"unitree: physical_robot: false":          func(c *Config) { c.Interface = "eth0" },
		"unitree: physical_robot: true":           func(c *Config) { c.PhysicalRobot = true },
		"unitree: simulator_quirks: true":         func(c *Config) { onEth0(c); c.SimulatorQuirks = true },
		"unitree: kp: empty":                      func(c *Config) { c.Kp = nil },
		"unitree: kd: 13 numbers":                 func(c *Config) { c.Kd = make([]float64, 13) },
		"unitree: damping_kd[0] is out":           func(c *Config) { c.DampingKd = []float64{0} },
		"unitree: deadman_ms: 90":                 func(c *Config) { onEth0(c); c.DeadmanMS = 90 },
		"unitree: standby_late_ms: 30":            func(c *Config) { c.StandbyLateMS = 30 },
		"unitree: stale_ms: 120":                  func(c *Config) { onEth0(c); c.StaleMS = 120 },
		"unitree: other_writers is unknown":       func(c *Config) { c.OtherWriters = "" },
		"unitree: channels is unknown":            func(c *Config) { c.Channels = "" },
		"unitree: action_scale: empty":            func(c *Config) { c.Channels = Relative },
		"unitree: mode_machine: 5":                func(c *Config) { c.ModeMachine = 5 },
		"unitree: foot_force is out of range (0)": func(c *Config) { c.FootForce = 0 },
		"unitree: pose[1] is out":                 func(c *Config) { c.Pose = []float64{0, 4} },
		"unitree: domain is out":                  func(c *Config) { c.Domain = -1 },
		"unitree: battery.stop_percent is out":    func(c *Config) { c.Battery.StopPercent = -1 },
		"unitree: battery: 40":                    func(c *Config) { c.Battery.RefusePercent = 40 },
		"unitree: temperature: 60":                func(c *Config) { c.Temperature.StopC = 60 },
		"unitree: remote.stop: no button \"B2\"":  func(c *Config) { c.Remote.Stop = []string{"B2+A"} },
		"unitree: remote.stop: empty":             func(c *Config) { c.Remote.Stop = nil },
		"unitree: remote.arm: A has no shoulder":  func(c *Config) { c.Remote.Arm = "A" },
		"unitree: remote.arm: L2+B+A includes":    func(c *Config) { c.Remote.Arm = "L2+B+A" },
		"unitree: remote.use is unknown":          func(c *Config) { c.Remote.Use = "" },
	} {
		c := valid(Go2)
		change(&c)
		errtest.Contains(t, c.Validate(), want)
	}
	for _, model := range []string{Go2, G1} {
		errtest.Nil(t, valid(model).Validate())
	}
}

func TestJoints_OfTheGo2HaveTheRobotsOrder(t *testing.T) {
	var names []string
	for _, j := range Joints(Go2) {
		names = append(names, j.Name)
	}
	want := "FR_hip FR_thigh FR_calf FL_hip FL_thigh FL_calf RR_hip RR_thigh RR_calf RL_hip RL_thigh RL_calf"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// The estimator finds joints by their place.
func TestJoints_AreThoseOfTheBodyTrees(t *testing.T) {
	for model, tree := range map[string]*legged.Body{Go2: body.Go2(), G1: body.G1()} {
		var names []string
		for _, j := range Joints(model) {
			names = append(names, j.Name)
		}
		if !slices.Equal(names, tree.Joints) {
			t.Errorf("%s: %v, the tree has %v", model, names, tree.Joints)
		}
	}
	for i, foot := range body.Go2().Feet {
		if name := body.Go2().Links[foot].Name; name != legs[i]+"_foot" {
			t.Errorf("foot %d is %s, the messages have %s", i, name, legs[i])
		}
	}
}

// TestJoints_OfTheG1AreThoseOfTheSimulator compares order, ranges and torques with
// scripts/g1_model.py, which the MJCF of the G1 is compared with.
func TestJoints_OfTheG1AreThoseOfTheSimulator(t *testing.T) {
	cmd := exec.Command("python3", "-c", "import json, g1_model as g; "+
		"print(json.dumps([[j.name, *j.range, j.torque] for j in g.JOINTS]))")
	cmd.Env = append(cmd.Environ(), "PYTHONPATH=../../scripts", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("python3: %v", err)
	}
	var rows [][4]any
	fatal.If(t, json.Unmarshal(out, &rows))
	joints := Joints(G1)
	if len(rows) != len(joints) {
		t.Fatalf("%d joints, want %d", len(joints), len(rows))
	}
	near := func(a float64, b any) bool { return a-b.(float64) < 1e-3 && b.(float64)-a < 1e-3 }
	for i, j := range joints {
		if r := rows[i]; j.Name != r[0] || !near(j.Min, r[1]) || !near(j.Max, r[2]) || !near(j.Torque, r[3]) {
			t.Errorf("joint %d is %v, want %v", i, j, r)
		}
	}
}

func TestConfig_SpecOfAbsoluteAndRelativeChannels(t *testing.T) {
	c := valid(Go2)
	c.Pose, c.ActionScale = []float64{0.5}, []float64{0.25}
	spec, err := c.Spec(20 * time.Millisecond)
	fatal.If(t, err)
	a := spec.Action[1]
	if a.Unit != "rad" || a.Min != 0.25 || a.Max != 0.75 || a.MaxRate != 6 || a.Measured.Scale != 1 {
		t.Errorf("absolute: %+v", a)
	}
	c.Channels = Relative
	if spec, err = c.Spec(20 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	a = spec.Action[1]
	if a.Unit != "" || a.Min != -1 || a.Max != 1 || a.MaxRate != 24 {
		t.Errorf("relative: %+v", a)
	}
	if a.Measured.Scale != 4 || a.Measured.Obs != "position_FR_thigh" {
		t.Errorf("relative: %+v", a)
	}
	m := c.mapping()
	if q := m.goal(1, 1); q != 0.75 {
		t.Errorf("goal %g, want 0.75", q)
	}
	if q := m.goal(2, 1); q > -0.73 { // a calf cannot be at 0.75
		t.Errorf("goal of the calf %g", q)
	}
	g := valid(G1)
	g.BodyEstimates = true
	if spec, err = g.Spec(20 * time.Millisecond); err != nil || len(spec.Obs) != 2*29+9+463 {
		t.Errorf("%d readings, %v", len(spec.Obs), err)
	}
	if last := spec.Obs[len(spec.Obs)-1].Name; last != "body_spin_head_z" {
		t.Errorf("the last reading is %s", last)
	}
}
