package feetech_test

import (
	"context"
	"fmt"
	"log"

	"optibfm/hal/feetech"
	"optibfm/hal/feetech/feetechtest"
	"optibfm/hal/serial"
)

// Arm, move, read and halt one STS3215 in position mode. The bus is a fake.
func Example() {
	bus, err := feetechtest.New(feetechtest.NewServo(1, 0))
	if err != nil {
		log.Fatal(err)
	}
	defer bus.Close()

	arm, err := feetech.Open(context.Background(), feetech.Config{
		Port:          serial.Config{Path: bus.Path, Baud: 1_000_000},
		Servos:        []feetech.Servo{{Name: "gripper", ID: 1}},
		TimeoutMs:     100,
		HaltTorqueOff: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer arm.Close()
	if err := arm.Arm(); err != nil {
		log.Fatal(err)
	}
	if err := arm.Write([]float64{-0.25}); err != nil {
		log.Fatal(err)
	}
	sample := make([]float64, len(arm.Inputs()))
	if _, err := arm.Read(sample); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %.2f %s\n", arm.Inputs()[0].Name, sample[0], arm.Inputs()[0].Unit)
	if err := arm.Halt([]float64{0}); err != nil {
		log.Fatal(err)
	}
	// Output: gripper_position -0.25 rad
}
