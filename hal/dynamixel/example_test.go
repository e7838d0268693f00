package dynamixel_test

import (
	"context"
	"fmt"
	"log"

	"optibfm/hal/dynamixel"
	"optibfm/hal/dynamixel/dynamixeltest"
	"optibfm/hal/serial"
)

// This example arms, moves, reads and halts one XM430 in position mode, on a fake bus.
func Example() {
	bus, err := dynamixeltest.New(dynamixeltest.NewServo(1, 1020, 3))
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()

	arm, err := dynamixel.Open(context.Background(), dynamixel.Config{
		Port:          serial.Config{Path: bus.Path, Baud: 1_000_000},
		Servos:        []dynamixel.Servo{{Name: "elbow", ID: 1, Mode: dynamixel.Position}},
		TimeoutMs:     100,
		DeadmanMs:     200,
		HaltTorqueOff: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer arm.Close()
	if err := arm.Arm(); err != nil {
		log.Fatal(err)
	}
	if err := arm.Write([]float64{0.5}); err != nil {
		log.Fatal(err)
	}
	sample := make([]float64, len(arm.Inputs()))
	if _, err := arm.Read(sample); err != nil {
		log.Fatal(err)
	}
	position := arm.Inputs()[0]
	fmt.Printf("%s %.2f %s, deadman %v\n", position.Name, sample[0], position.Unit, arm.Deadman())
	if err := arm.Halt([]float64{0}); err != nil {
		log.Fatal(err)
	}
	// Output: elbow_position 0.50 rad, deadman 200ms
}
