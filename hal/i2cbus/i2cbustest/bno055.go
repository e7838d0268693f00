package i2cbustest

import "math"

// BNO055 is the model of a Bosch BNO055 with its axes level. Its fusion runs in
// the modes that have one.
type BNO055 struct {
	Chip
	Boot int // reads of the id, before and after a reset, for which the chip has not started
}

// NewBNO055 is a chip after power-on: in CONFIGMODE.
func NewBNO055() *BNO055 {
	b := &BNO055{}
	b.Chip = Chip{Written: b.written, Before: b.before}
	b.PowerCycle()
	return b
}

// PowerCycle resets all registers.
func (b *BNO055) PowerCycle() {
	b.Registers = [256]byte{0x00: 0xA0, 0x01: 0xFB, 0x02: 0x32, 0x03: 0x0F, 0x36: 0x0F, 0x3B: 0x80, 0x41: 0x24}
	if b.Boot > 0 {
		b.Registers[0x00] = 0
	}
}

// Turn sets the orientation to a rotation about the vertical, in radians, and
// the turn rate in rad/s.
func (b *BNO055) Turn(yaw, rate float64) {
	sin, cos := math.Sincos(yaw / 2)
	b.Little(0x20, int16(math.Round(cos*16384)), 0, 0, int16(math.Round(sin*16384)))
	b.Little(0x18, int16(math.Round(rate*900)))
}

func (b *BNO055) written(c *Chip, reg, value byte) {
	switch {
	case reg == 0x3D:
		b.mode(value & 0x0F)
	case reg == 0x3F && value&0x20 != 0:
		b.PowerCycle()
	case reg <= 0x06 || reg >= 0x08 && reg <= 0x3A: // read only
	case reg == 0x07 || c.Registers[0x3D] == 0: // the rest only in CONFIGMODE
		c.Registers[reg] = value
	}
}

func (b *BNO055) mode(mode byte) {
	b.Registers[0x3D] = mode
	switch {
	case mode == 0:
		b.Registers[0x39] = 0
		clear(b.Registers[0x08:0x36])
	case mode >= 8:
		b.Registers[0x39], b.Registers[0x35] = 5, 0xFF
		b.Little(0x20, 16384, 0, 0, 0)
		b.Little(0x2E, 0, 0, 981)
		b.Little(0x08, 0, 0, 981)
	default:
		b.Registers[0x39] = 6
	}
}

func (b *BNO055) before(c *Chip, reg byte) {
	if reg == 0x00 && b.Boot > 0 {
		if b.Boot--; b.Boot == 0 {
			c.Registers[0x00] = 0xA0
		}
	}
}
