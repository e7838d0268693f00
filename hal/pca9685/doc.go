// Package pca9685 drives NXP's PCA9685, sixteen PWM outputs on an I²C bus, for
// servos and speed controllers (pulses of 1000 to 2000 µs, 50 times a second)
// and for motor drivers (a duty cycle):
//
//	pwm, err := pca9685.New(bus, enable, pca9685.Config{
//		Channels: []pca9685.Channel{{Name: "left", Pin: 0}, {Name: "right", Pin: 1}},
//	})
//	...
//	err = pwm.Write([]float64{1500, 1500}) // µs
//
// # No deadman
//
// The chip has no watchdog: it repeats its last pulses for as long as it has
// power, whoever has died. Deadman is 0. What stops the actuators is, in this
// order: Halt over the bus; the line OE, which forces all outputs low without
// the bus (data sheet revision 4, section 7.4) and is this driver's
// [hal.Backstop]; and something outside, such as a relay behind the emergency
// stop, or a pull-up on OE that holds when the computer has lost its power.
// Connect OE.
//
// # Before Arm and after Halt
//
// Config.WhenDisarmed chooses. With "off" the outputs carry no pulses before
// Arm and after Halt, and OE is high. Servos go limp; most speed controllers
// stop. With "pulses" they carry what Write and Halt command from the first
// Write on, for speed controllers that must see neutral before they accept
// anything and for servos that must hold; where Halt finds the bus dead, OE
// goes high all the same.
//
// # How a write is checked
//
// All outputs are written in one transaction and change together at its end
// (section 7.3.2, OCH = 0). Then MODE1 is read: a chip that has lost its power
// meanwhile is asleep, all its outputs off, and says so there within the tick.
// At 400 kHz this takes 0.2 ms and 0.1 ms for each output between the lowest
// and the highest pin. Arm reads the mode and the prescaler back.
package pca9685
