package mit

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver mit.
func Register() {
	assembly.AddDevice("mit", "MIT is the motors of a CAN interface with mini cheetah frames.",
		func(ctx context.Context, c Config, _ *assembly.Opener) (hal.Device, error) {
			return Open(ctx, c)
		})
	assembly.HaltUnopened("mit", HaltAll)
}
