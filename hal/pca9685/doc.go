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
// The chip has no watchdog: it repeats its last pulses while it has power. Deadman
// is 0. The actuators are stopped, in this order, by: Halt over the bus; the line
// OE, which forces all outputs low without the bus (data sheet revision 4, section
// 7.4) and is this driver's [hal.Backstop]; and an external device, such as a relay
// behind the emergency stop, or a pull-up on OE for a computer without power.
// Connect OE.
//
// # Before Arm and after Halt
//
// Config.WhenDisarmed selects the behaviour. With "off" the outputs carry no pulses
// before Arm and after Halt, and OE is high. Servos lose their torque; most speed
// controllers stop. With "pulses" they carry the commands of Write and Halt from the
// first Write on, for speed controllers that require neutral first and for servos
// that must hold; if the bus fails, Halt still drives OE high.
//
// # Where motion begins
//
// The chip measures nothing: a servo jumps to its first pulses at full speed, wherever
// it is, and no output has a hal.Signal.Measured. The first pulses are:
//
//	power-up of the chip  none; Write and Arm fail until the program starts again
//	start of the program  none: New turns all outputs off, also those that a program
//	                      that died left with pulses
//	Write, disarmed       "off": none; "pulses": these
//	Arm                   those of the latest Write or Halt, of none before the first
//	Halt                  "off": the failsafe for a moment, then none; "pulses": the failsafe
//
// The bus is opened only once. If the program dies, the pulses continue: see above.
// Where a jump is dangerous, use servos that report their position, or bring the joints
// to the disarmed pose by hand before Arm.
//
// # How a write is checked
//
// One transaction writes all outputs, which change together at its end (section
// 7.3.2, OCH = 0). Then the driver reads MODE1: a chip that lost its power in the
// meantime sleeps with all outputs off, and MODE1 shows it within the tick. At
// 400 kHz this takes 0.2 ms, and 0.1 ms for each output between the lowest and the
// highest pin. Arm reads back the mode and the prescaler.
package pca9685
