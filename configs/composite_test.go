package configs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"optibfm/hal/assembly"
	"optibfm/hal/bno055"
	"optibfm/hal/dynamixel"
	"optibfm/hal/feetech"
	"optibfm/hal/mit"
	"optibfm/hal/rover"
	"optibfm/internal/errtest"
	"optibfm/internal/fatal"
	"optibfm/internal/sections"
	_ "optibfm/standard"
	"optibfm/tflite"
)

// compositeText is the ready-made composite robot with a change.
func compositeText(t *testing.T, old, new string) string {
	t.Helper()
	text, err := Text("composite")
	fatal.If(t, err)
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%q is there %d times", old, strings.Count(string(text), old))
	}
	return strings.Replace(string(text), old, new, 1)
}

func TestParse_ReportsPlaceInADevice(t *testing.T) {
	for _, c := range []struct{ old, new, wantText string }{
		{"driver: bno055", "driver: «bno05", "did you mean bno055?"},
		{"mode: imu ", "mode: «m4g ", "use one of imu, ndof"},
		{"read: [heading, gyro]", "read: [heading, «giro]", "did you mean gyro?"},
		{"address: 0x40", "address: «0x70", "for all chips"},
		{"stale_ms: 120", "stale_ms: «-1", "from 0 to 60000"},
		{"{name: right, pin: 1}", "{name: right, pin: «0}", "give every output its own"},
		{"from: imu.heading_cos", "from: «imu.heading_cosine", "heading, heading_cos, heading_sin"},
		{"{name: y, from: odometry.y, scale: 0.5,", "{name: y, from: «odometry.y,", "give a scale"},
		{"to: base.left,", "to: «base.lft,", "it has left, right"},
		{"      yaw_rate: imu.gyro_z", "      yaw_rate: «imu.heading", "rad is an angle, rad/s is a turn rate"},
		{"    name: rover", "    «nam: rover", "did you mean name?"},
		{"i2c_timeout_ms: 10 ", "i2c_timeout_ms: «1 ", "from 10 to 1000"},
	} {
		text, line, column := at(compositeText(t, c.old, c.new))
		got := mistakes(t, text)
		if len(got) == 0 {
			t.Errorf("no error with %s", c.new)
			continue
		}
		if e := got[0]; e.Line != line || e.Column != column || !strings.Contains(e.Problem, c.wantText) {
			t.Errorf("%d:%d, want %d:%d and %q:\n%v", e.Line, e.Column, line, column, c.wantText, e)
		}
	}
}

func TestComposite_RefusesTwoDevicesInOnePlace(t *testing.T) {
	got := mistakes(t, compositeText(t, "    odometry: ", `      - name: other
        driver: pca9685
        pca9685: {bus: /dev/i2c-1, channels: [{name: left, pin: 5}]}
    odometry: `))
	const want = "devices[2].pca9685: has the place of devices[1] (/dev/i2c-1, address 0x40)"
	if len(got) != 1 || !strings.Contains(got[0].Problem, want) {
		t.Errorf("%v", got)
	}
}

func TestParse_ReportsElementOfAMissingKey(t *testing.T) {
	text := compositeText(t, "{name: right_wheel, to: base.right,", "{name: right_wheel,")
	got := mistakes(t, text)
	if len(got) == 0 || !strings.Contains(got[0].Source, "right_wheel") {
		t.Errorf("%v", got)
	}
}

func TestLoad_OverridesAnElementOfAList(t *testing.T) {
	cfg, err := Load("composite", "robot.composite.devices[0].bno055.bus=/dev/i2c-7",
		"robot.composite.action[1].max=0.5")
	fatal.If(t, err)
	c := sections.Get[assembly.Config](cfg.Robot.Sections)
	if bus := sections.Get[bno055.Config](c.Devices[0].Sections).Bus; bus != "/dev/i2c-7" || c.Action[1].Max != 0.5 {
		t.Errorf("%+v", c)
	}
	unknown := []string{"devices[2].name", "devices[-1].name", "devices[x].name", "devices[0.name", "name[0]"}
	for _, path := range unknown {
		errtest.Contains(t, errtest.Of(Load("composite", "robot.composite."+path+"=x")), "unknown key", path)
	}
}

func TestComposite_RefusesLockstep(t *testing.T) {
	_, err := Load("composite", "run.lockstep=true", "operator.source=none")
	errtest.Contains(t, err, "the robot runs in real time")
}

func TestComposite_ReadyMadeRobotsFitTheRoverModel(t *testing.T) {
	for _, name := range []string{"composite", "rover-mcu"} {
		t.Run(name, func(t *testing.T) { checkRoverModel(t, name) })
	}
}

func checkRoverModel(t *testing.T, name string) {
	t.Helper()
	cfg, err := Load(name)
	fatal.If(t, err)
	spec, err := sections.Get[assembly.Config](cfg.Robot.Sections).Describe(cfg.Loop.Period())
	fatal.If(t, err)
	bundle, err := tflite.Load(rover.Model())
	fatal.If(t, err)
	if len(spec.Obs) != len(bundle.Manifest.Observation) || len(spec.Action) != len(bundle.Manifest.Action) {
		t.Fatalf("%d and %d channels", len(spec.Obs), len(spec.Action))
	}
	for i, c := range bundle.Manifest.Observation {
		if spec.Obs[i].Name != c.Name || spec.Obs[i].Unit != c.Unit {
			t.Errorf("observation %d is %+v, the model's %+v", i, spec.Obs[i], c)
		}
	}
	for i, c := range bundle.Manifest.Action {
		if spec.Action[i].Name != c.Name || spec.Action[i].Unit != c.Unit {
			t.Errorf("action %d is %+v, the model's %+v", i, spec.Action[i], c)
		}
	}
}

func TestComposite_UnguardedNamesDevicesWithoutDeadman(t *testing.T) {
	for _, c := range []struct {
		name, change string
		want         string
	}{
		{"composite", "run.seed=1", "[base]"}, // a PCA9685
		{"rover-mcu", "run.seed=1", "[]"},
		{"rover-mcu", "robot.composite.devices[0].mcu.deadman_ms=0", "[]"}, // its default
	} {
		cfg, err := Load(c.name, c.change)
		fatal.If(t, err)
		if got := fmt.Sprint(sections.Get[assembly.Config](cfg.Robot.Sections).Unguarded(cfg.Loop.Period())); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.name, c.change, got, c.want)
		}
	}
	servo := []dynamixel.Servo{{Name: "pan", ID: 1}}
	arm := assembly.Config{Devices: []assembly.Device{
		device("guarded", "dynamixel", dynamixel.Config{Servos: servo, DeadmanMs: 200}),
		device("limp", "dynamixel", dynamixel.Config{Servos: servo}),
		device("sts", "feetech", feetech.Config{Servos: []feetech.Servo{{Name: "pan", ID: 1}}}),
		device("cheetah", "mit", mit.Config{Motors: []mit.Motor{{Name: "hip", ID: 1}}}),
		device("damiao", "mit", mit.Config{Motors: []mit.Motor{{Name: "hip", ID: 1}}, DeadmanMs: 100}),
	}}
	if got := fmt.Sprint(arm.Unguarded(100 * time.Millisecond)); got != "[limp sts cheetah damiao]" {
		t.Error(got)
	}
}

func device[C any](name, driver string, section C) assembly.Device {
	d := assembly.Device{Name: name, Driver: driver}
	sections.Edit(&d.Sections, func(c *C) { *c = section })
	return d
}

func TestDevice_EveryDriverHasASection(t *testing.T) {
	drivers := assembly.DeviceKind{}.List().Names()
	got := strings.Join(drivers, " ")
	if !strings.Contains(got, "bno055 mpu6050 pca9685 mcu dynamixel feetech mit") {
		t.Errorf("drivers: %s", got)
	}
	for _, driver := range drivers {
		d := assembly.Device{Name: "it", Driver: driver}
		errtest.NotNil(t, d.Chosen().Validate(), driver, ": an empty section is valid")
	}
}
