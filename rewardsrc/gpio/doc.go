// Package gpio is a label source of buttons, a light and a buzzer on the pins of
// the robot's computer, or on a GPIO chip behind USB or I2C.
//
//	panel, err := gpio.Open(cfg, gpio.Options{})
//
// Package panel implements the [rewardsrc.Source]: the meaning of presses and
// held buttons, and waiting for an absent chip.
//
// The kernel's character device, interface version 2 (Linux 5.10 and newer,
// include/uapi/linux/gpio.h), reports both edges of the lines. Each event has
// the kernel's time, on CLOCK_MONOTONIC, and a sequence number of the line. A
// gap in the numbers means that the kernel's buffer overflowed; the presses
// among the missing edges are counted as lost and reported.
//
// # Bouncing contacts
//
// The kernel debounces if it and the chip's driver can. It then reports an edge
// debounce_ms after the edge, with the time of the report. Otherwise this
// package debounces: a level counts once it was steady for debounce_ms, with
// the time of the first edge.
//
// # Light and buzzer
//
//	asking        light: blinks twice a second    buzzer: one short beep
//	acknowledged  light: steady for 0.4 s         buzzer: two short beeps
//	refused       light: flickers for 0.8 s       buzzer: one long tone
//
// The goroutine that waits for the buttons drives them; Ask never waits.
//
// # The kernel's interface
//
// The requests are those of warthog618/go-gpiocdev's package uapi. Its watcher
// keeps reading a chip that was unplugged, so this package reads the events.
package gpio
