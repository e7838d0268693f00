package assembly_test

import (
	"context"
	"time"

	"optibfm"
	"optibfm/hal"
	"optibfm/hal/assembly"
	"optibfm/hal/monotonic"
)

// boardConfig is the section myboard of an element of robot.composite.devices.
type boardConfig struct {
	Port string `yaml:"port" doc:"The serial port."`
}

func (boardConfig) Validate() error       { return nil }
func (boardConfig) Inputs() []hal.Signal  { return []hal.Signal{{Name: "left_speed", Unit: "m/s"}} }
func (boardConfig) Outputs() []hal.Signal { return []hal.Signal{{Name: "left", Unit: "m/s"}} }
func (boardConfig) Bounds(time.Duration) hal.Bounds {
	const call = 2 * time.Millisecond // the timeout of the port
	return hal.Bounds{Sense: call, Act: call, Arm: call, Halt: call}
}

// board is a motor board: replace its methods with your driver.
type board struct {
	boardConfig
	speed float64
	armed bool
}

func (b *board) Read(dst []float64) (at int64, err error) {
	dst[0] = b.speed
	return monotonic.Now(), nil
}

func (b *board) Write(outputs []float64) error {
	if b.armed {
		b.speed = outputs[0]
	}
	return nil
}

func (b *board) Arm() error                    { b.armed = true; return nil }
func (b *board) Halt(failsafe []float64) error { b.armed, b.speed = false, failsafe[0]; return nil }
func (b *board) Close() error                  { return nil }

// A program with its own driver of a motor board and the drivers of the repository.
func ExampleAddDevice() {
	assembly.Register() // the driver composite; import _ "optibfm/standard" has it and every device
	assembly.AddDevice("myboard", "Myboard drives a motor.",
		func(_ context.Context, c boardConfig, _ *assembly.Opener) (hal.Device, error) {
			return &board{boardConfig: c}, nil
		})
	optibfm.Main()
}
