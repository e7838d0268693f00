package i2cbustest

// NewMPU6050 is an InvenSense MPU-6050 after power-on: asleep. Awake it has a
// new sample whenever it is asked, 1 g on its z axis, until Frozen is set.
func NewMPU6050() *MPU6050 {
	m := &MPU6050{}
	m.Chip = Chip{Written: m.written, Before: m.before}
	m.PowerCycle()
	return m
}

// MPU6050 is the model of the chip.
type MPU6050 struct {
	Chip
	Frozen bool // no new samples come
	Busy   int  // reads for which a reset still lasts
}

// PowerCycle resets all registers.
func (m *MPU6050) PowerCycle() {
	m.Registers = [256]byte{0x75: 0x68, 0x6B: 0x40}
}

func (m *MPU6050) written(c *Chip, reg, value byte) {
	switch {
	case reg == 0x6B && value&0x80 != 0:
		m.PowerCycle()
		if m.Busy > 0 {
			c.Registers[0x6B] |= 0x80
		}
	case reg == 0x75 || reg >= 0x3A && reg <= 0x60: // read only
	default:
		c.Registers[reg] = value
	}
}

func (m *MPU6050) before(c *Chip, reg byte) {
	if reg == 0x6B && m.Busy > 0 {
		if m.Busy--; m.Busy == 0 {
			c.Registers[0x6B] = 0x40
		}
		return
	}
	if reg != 0x3A {
		return
	}
	c.Registers[0x3A] = 0
	awake := c.Registers[0x6B]&0x40 == 0
	if !awake || m.Frozen {
		return
	}
	c.Registers[0x3A] = 1
	if m.sample() == [3]int16{} { // default: not moving
		c.Big(0x3F, 16384>>(c.Registers[0x1C]>>3&3))
	}
}

func (m *MPU6050) sample() (accel [3]int16) {
	for i := range accel {
		accel[i] = int16(m.Registers[0x3B+2*i])<<8 | int16(m.Registers[0x3C+2*i])
	}
	return accel
}
