package servobus

import (
	"fmt"
	"time"
)

const (
	defaultSlack = 5 * time.Millisecond // for the adapter and the scheduler
	minSlack     = time.Millisecond
)

// CheckServos validates the n servos of a configuration: their number, and that names and IDs are
// unique and not empty. driver is the prefix of the error.
func CheckServos(driver string, n, limit int, servo func(i int) (name string, id int)) error {
	if n < 1 || n > limit {
		return fmt.Errorf("%s: servos: not between 1 and %d (%d)", driver, limit, n)
	}
	names, ids := map[string]bool{}, map[int]bool{}
	for i := range n {
		name, id := servo(i)
		key := fmt.Sprintf("%s: servos[%d]", driver, i)
		if name == "" || names[name] {
			return fmt.Errorf("%s: name: empty or given twice (%q)", key, name)
		}
		if ids[id] {
			return fmt.Errorf("%s %q: id: given twice (%d)", key, name, id)
		}
		names[name], ids[id] = true, true
	}
	return nil
}

// Timeout returns the time limit of one transaction: timeout_ms, by default the time on the line
// plus 5 ms. It fails where timeout_ms is too short for the answers. delayRegister is the register
// of the servos' return delay.
func Timeout(driver string, ms float64, onLine time.Duration, delayRegister int) (time.Duration, error) {
	if ms == 0 {
		return onLine + defaultSlack, nil
	}
	timeout := Milliseconds(ms)
	if timeout < onLine+minSlack {
		return 0, fmt.Errorf("%s: timeout_ms: too short (%v): the answers take %v on the line; "+
			"raise timeout_ms or port.baud, or set the return delay (register %d) of the servos to 0",
			driver, ms, onLine, delayRegister)
	}
	return timeout, nil
}

// Milliseconds converts a configuration value.
func Milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
