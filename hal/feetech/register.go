package feetech

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver feetech.
func Register() {
	assembly.AddDevice("feetech", "Feetech is a chain of Feetech STS servos.",
		func(ctx context.Context, c Config, _ *assembly.Opener) (hal.Device, error) {
			return Open(ctx, c)
		})
	assembly.HaltUnopened("feetech", HaltAll)
}
