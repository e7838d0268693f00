// Package servobus drives a chain of serial-bus servos on one half-duplex line: sync reads, which
// every servo answers in turn, and sync writes, which none answers. Packages dynamixel and feetech
// build on it; each provides its [Protocol].
//
// A [Bus] limits every transaction by its timeout, verifies each status packet, counts faults by
// kind, and repeats a sync read once for the servos without a valid answer. [Bus.SyncRead]
// therefore takes at most two timeouts, with any number of dead servos. After New, only
// [Bus.Request], which is for opening, and [Bus.HaltAll] allocate.
//
// Package servobustest has a fake chain and the tests that both drivers run.
package servobus
