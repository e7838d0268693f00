package bno055

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver bno055.
func Register() {
	assembly.AddDevice("bno055", "BNO055 is Bosch's IMU with fusion.",
		func(ctx context.Context, c Config, o *assembly.Opener) (hal.Device, error) {
			bus, err := o.Bus(c.Bus)
			if err != nil {
				return nil, err
			}
			return New(ctx, bus, c, o.Now)
		})
}
