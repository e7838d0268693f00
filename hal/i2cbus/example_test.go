package i2cbus_test

import (
	"errors"
	"fmt"
	"time"

	"optibfm/hal"
	"optibfm/hal/i2cbus"
	"optibfm/hal/i2cbus/i2cbustest"
)

// On a robot the bus comes from Open.
func Example() {
	chip := i2cbustest.NewMPU6050()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x68: &chip.Chip})
	conn := i2cbus.NewConn(bus, 0x68, "mpu6050")

	id := make([]byte, 1)
	fmt.Println(conn.Read(0x75, id), id)

	bus.Hold(time.Millisecond) // somebody holds the clock line
	err := conn.Read(0x75, id)
	fmt.Println(errors.Is(err, hal.ErrTimeout))

	bus.Hold(0)
	bus.Nack(1) // the second try succeeds
	fmt.Println(conn.Read(0x75, id))

	f := conn.Faults()
	fmt.Println(f.Timeout, f.Recovered)
	// Output:
	// <nil> [104]
	// true
	// <nil>
	// 1 1
}
