// Package gpio is buttons, a light and a buzzer on the pins of the robot's
// computer, or on a GPIO chip behind USB or I2C.
//
//	panel, err := gpio.Open(cfg, gpio.Options{})
//
// It is a [rewardsrc.Source] by way of package panel, which says what a press
// is about, what holding means, and what happens when the chip goes away.
//
// Lines are requested from the kernel's character device, interface version 2
// (Linux 5.10 and newer, include/uapi/linux/gpio.h), with both edges. Each
// edge comes with the kernel's time, on CLOCK_MONOTONIC, and with a number
// that counts the line's edges: where numbers are missing the kernel's buffer
// overflowed, and the presses among the missing edges are counted as lost and
// told.
//
// # Bouncing contacts
//
// The kernel debounces where the chip's driver and the kernel can; then an
// edge is told debounce_ms after it happened, with the time of the telling.
// Where the kernel refuses, it is done here: a level counts once it was steady
// for debounce_ms, with the time of the first edge.
//
// # Light and buzzer
//
//	asking        light: blinks twice a second    buzzer: one short beep
//	acknowledged  light: steady for 0.4 s         buzzer: two short beeps
//	refused       light: flickers for 0.8 s       buzzer: one long tone
//
// They are driven by the goroutine that waits for the buttons; Ask never waits
// for them.
//
// # The kernel's interface
//
// The requests are those of warthog618/go-gpiocdev's package uapi. Its watcher
// above them goes on reading a chip that was unplugged, so the events are read
// here.
package gpio
