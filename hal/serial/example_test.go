package serial_test

import (
	"fmt"
	"log"
	"time"

	"optibfm/hal/monotonic"
	"optibfm/hal/serial"
	"optibfm/hal/serial/serialtest"
)

// A request and its answer within one deadline. The far end is a fake.
func Example() {
	line, err := serialtest.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer line.Close()
	go func() {
		request := make([]byte, 4)
		_, _ = line.Read(request)
		_, _ = line.Write([]byte("pong"))
	}()

	port, err := serial.Open(serial.Config{Path: line.Path, Baud: 115_200})
	if err != nil {
		log.Fatal(err)
	}
	defer port.Close()
	deadline := monotonic.After(time.Second)
	if err := port.Write([]byte("ping"), deadline); err != nil {
		log.Fatal(err)
	}
	answer := make([]byte, 4)
	if _, err := port.ReadFull(answer, deadline); err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(answer))
	// Output: pong
}
