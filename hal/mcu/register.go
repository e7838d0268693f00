package mcu

import (
	"context"

	"optibfm/hal"
	"optibfm/hal/assembly"
)

// Register registers the driver mcu.
func Register() {
	assembly.AddDevice("mcu", "MCU is a microcontroller that speaks the protocol of hal/mcu/PROTOCOL.md.",
		func(ctx context.Context, c Config, _ *assembly.Opener) (hal.Device, error) {
			return Open(ctx, c)
		})
	assembly.HaltUnopened("mcu", func(c Config, failsafe []float64) ([]string, error) {
		return nil, HaltBoard(c, failsafe)
	})
}
