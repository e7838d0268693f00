package dynamixel

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver dynamixel.
func Register() {
	assembly.AddDevice("dynamixel", "Dynamixel is a chain of ROBOTIS X series servos.",
		func(ctx context.Context, c Config, _ *assembly.Opener) (hal.Device, error) {
			return Open(ctx, c)
		})
	assembly.HaltUnopened("dynamixel", HaltAll)
}
