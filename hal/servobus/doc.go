// Package servobus is what chains of serial-bus servos have in common, whatever
// their packets look like: one half-duplex line, sync reads that every servo
// answers in turn, sync writes that none answers. Packages dynamixel and feetech
// build on it; each brings its [Protocol].
//
// A [Bus] bounds every transaction by its timeout, verifies what answers, counts
// what goes wrong by kind and servo, and asks once more for what is missing:
// [Bus.Gather] takes at most two timeouts, however many servos are dead. Nothing
// here allocates once the bus is made, but Ask, which is for opening, and
// [Bus.HaltAll], which halts a chain whose program died.
package servobus
