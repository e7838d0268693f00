package composite_test

import (
	"context"
	"fmt"
	"time"

	"optibfm/hal/bno055"
	"optibfm/hal/composite"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/hal/pca9685"
	"optibfm/rtloop"
)

// A cart with a fake IMU and fake speed controllers. On a robot the lists are in its configuration
// file.
func Example() {
	sensor, pulses := i2cbustest.NewBNO055(), i2cbustest.NewPCA9685()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &sensor.Chip, 0x40: &pulses.Chip})
	config := bno055.Config{Bus: "/dev/i2c-1", Read: []string{"gyro"}}
	imu, err := bno055.New(context.Background(), bus, config, rtloop.Now)
	if err != nil {
		fmt.Println(err)
		return
	}
	base, err := pca9685.New(bus, nil, pca9685.Config{
		Bus:      "/dev/i2c-1",
		Channels: []pca9685.Channel{{Name: "left", Pin: 0}, {Name: "right", Pin: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	cart, err := composite.New(composite.Config{
		Name: "cart", Period: 20 * time.Millisecond,
		Observation: []composite.Observation{
			{Name: "yaw_rate", Unit: "deg/s", From: "imu.gyro_z"},
			{Name: "last_left", From: "action.left_wheel"},
		},
		Action: []composite.Action{
			{Name: "left_wheel", To: "base.left", Scale: 500, Offset: 1500, Min: -1, Max: 1},
			{Name: "right_wheel", To: "base.right", Scale: 500, Offset: 1500, Min: -1, Max: 1, Invert: true},
		},
	}, rtloop.Now, composite.Device{Name: "imu", Device: imu}, composite.Device{Name: "base", Device: base})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cart.Close()

	sensor.Turn(0, 0.5)
	observation := make([]float32, 2)
	for _, step := range []func() error{
		cart.Arm,
		func() error { return cart.Act([]float32{0.2, 0.2}) },
		func() error { _, err := cart.Sense(observation); return err },
		cart.Halt,
	} {
		if err := step(); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Printf("%.1f\n", observation)
	fmt.Println(cart.Act([]float32{0, 0}))
	// Output:
	// [28.6 0.2]
	// hal: the robot is halted: arm it before acting
}
