package mpu6050

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver mpu6050.
func Register() {
	assembly.AddDevice("mpu6050", "MPU6050 is InvenSense's IMU.",
		func(_ context.Context, c Config, o *assembly.Opener) (hal.Device, error) {
			bus, err := o.Bus(c.Bus)
			if err != nil {
				return nil, err
			}
			return New(bus, c, o.Now)
		})
}
