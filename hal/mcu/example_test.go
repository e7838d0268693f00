package mcu_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"optibfm/hal/mcu"
	"optibfm/hal/mcu/mcutest"
	"optibfm/hal/serial"
)

// A rover's board. Its firmware declares the channels. The board is a fake.
func Example() {
	board, err := mcutest.New(mcutest.Rover())
	if err != nil {
		log.Fatal(err)
	}
	defer board.Close()

	rover, err := mcu.Open(context.Background(), mcu.Config{
		Port: serial.Config{Path: board.Path, Baud: 921_600}, DeadmanMs: 2000, StaleMs: 2000, TimeoutMs: 1000,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rover.Close()
	for _, s := range rover.Outputs() {
		fmt.Println(s.Name, s.Unit)
	}
	if err := rover.Arm(); err != nil {
		log.Fatal(err)
	}
	if err := rover.Write([]float64{1, 1}); err != nil {
		log.Fatal(err)
	}
	sample := make([]float64, len(rover.Inputs()))
	for sample[2] == 0 { // a control loop has no such wait
		time.Sleep(5 * time.Millisecond)
		if _, err := rover.Read(sample); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(rover.Inputs()[2].Name, sample[2])
	if err := rover.Halt([]float64{0, 0}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// left_velocity rad/s
	// right_velocity rad/s
	// left_velocity 1
}
