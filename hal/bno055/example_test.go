package bno055_test

import (
	"context"
	"fmt"
	"math"

	"optibfm/hal/bno055"
	"optibfm/hal/i2cbus/i2cbustest"
	"optibfm/rtloop"
)

// On a robot the bus comes from i2cbus.Open.
func Example() {
	chip := i2cbustest.NewBNO055()
	bus := i2cbustest.New(map[uint16]*i2cbustest.Chip{0x28: &chip.Chip})

	imu, err := bno055.New(
		context.Background(), bus, bno055.Config{Bus: "/dev/i2c-1", Read: []string{"heading"}}, rtloop.Now)
	if err != nil {
		fmt.Println(err)
		return
	}
	chip.Turn(math.Pi/3, 0)
	values := make([]float64, len(imu.Inputs()))
	if _, err := imu.Read(values); err != nil {
		fmt.Println(err)
		return
	}
	for i, input := range imu.Inputs() {
		fmt.Printf("%s: %.2f\n", input.Name, values[i])
	}
	// Output:
	// heading: 1.05
	// heading_cos: 0.50
	// heading_sin: 0.87
	// tilt: 0.00
}
