// Package servobus drives a chain of serial-bus servos on one half-duplex line: sync reads, which
// every servo answers in turn, and sync writes, which none answers. Packages dynamixel and feetech
// build on it; each provides its [Protocol].
//
// A [Bus] limits every transaction by its timeout, verifies each status packet, counts faults by
// kind, and repeats a sync read once for the servos without a valid answer. [Bus.SyncRead]
// therefore takes at most two timeouts, with any number of dead servos. After New, only [Bus.Ping]
// and [Bus.Read], which are for opening, and [Bus.HaltAll] allocate.
//
// # Late answers
//
// A status packet has no sequence number, and no flush reaches the bytes inside a USB adapter. An
// answer that arrives after its deadline could therefore count as the answer to the next read: an
// old position, or another register. After each missing answer a Bus changes the number of bytes
// that it requests, by up to [MaxExtra], and ignores answers that have the length of an earlier
// read. An answer that is more than two reads late is not recognised.
//
// Package servobustest has a fake chain and the tests that both drivers run.
package servobus
