package assembly_test

import (
	"testing"

	"optibfm/hal/assembly"
	"optibfm/hal/composite"
	"optibfm/hal/mit"
	"optibfm/hal/pca9685"
	"optibfm/internal/fatal"
	"optibfm/internal/registry"
	"optibfm/internal/sections"
	"optibfm/rtloop"
	_ "optibfm/standard"
)

func TestHaltTasks_DevicesOfOneBusShareALine(t *testing.T) {
	pwm := func(name string, address int) assembly.Device {
		d := assembly.Device{Name: name, Driver: "pca9685"}
		sections.Edit(&d.Sections, func(c *pca9685.Config) {
			*c = pca9685.Config{Bus: "/dev/i2c-1", Address: address, Channels: []pca9685.Channel{{Name: "it"}}}
		})
		return d
	}
	motors := assembly.Device{Name: "legs", Driver: "mit"}
	sections.Edit(&motors.Sections, func(c *mit.Config) {
		*c = mit.Config{Interface: "can0", Motors: []mit.Motor{
			{Name: "hip", ID: 1, ReplyID: 2, Mode: mit.Torque, PMax: 1, VMax: 1, TMax: 1},
		}}
	})
	c := assembly.Config{Name: "it", Devices: []assembly.Device{pwm("left", 0x40), pwm("right", 0x41), motors}}
	for _, to := range []string{"left.it", "right.it"} {
		c.Action = append(c.Action, composite.Action{Name: to, To: to, Scale: 500, Offset: 1500, Min: -1, Max: 1})
	}
	c.Action = append(c.Action, composite.Action{Name: "hip", Unit: "N·m", To: "legs.hip_torque_goal", Min: -1, Max: 1})
	c.Observation = []composite.Observation{{Name: "hip", Unit: "rad", From: "legs.hip_position"}}
	tasks, err := c.HaltTasks(50e6, rtloop.Now)
	fatal.If(t, err)
	if len(tasks) != 3 || tasks[0].Line != tasks[1].Line || tasks[1].Line == tasks[2].Line {
		t.Errorf("devices of one bus would be halted concurrently: %+v", tasks)
	}
}

func TestConnections_EveryDriverHasAPlace(t *testing.T) {
	drivers := assembly.DeviceKind{}.List().Names()
	if len(drivers) < 7 {
		t.Errorf("drivers: %v", drivers)
	}
	for _, driver := range drivers {
		found := assembly.Config{Devices: []assembly.Device{{Name: "it", Driver: driver}}}.Connections()
		if len(found) == 0 || found[0].Kind == registry.OnI2C && found[0].Address == 0 {
			t.Errorf("%s: %+v", driver, found)
		}
	}
}
