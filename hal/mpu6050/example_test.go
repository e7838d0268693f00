package mpu6050_test

import (
	"fmt"

	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/hal/mpu6050"
	"optibfm/rtloop"
)

// On a robot the bus comes from i2cbus.Open.
func Example() {
	chip := i2cbustest.NewMPU6050()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x68: &chip.Chip})

	imu, err := mpu6050.New(bus, mpu6050.Config{Bus: "/dev/i2c-1", GyroDPS: 500, AccelG: 4}, rtloop.Now)
	if err != nil {
		fmt.Println(err)
		return
	}
	values := make([]float64, len(imu.Inputs()))
	if _, err := imu.Read(values); err != nil {
		fmt.Println(err)
		return
	}
	for i, input := range imu.Inputs()[:3] {
		fmt.Printf("%s %.2f %s\n", input.Name, values[i], input.Unit)
	}
	// Output:
	// accel_x 0.00 m/s^2
	// accel_y 0.00 m/s^2
	// accel_z 9.81 m/s^2
}
