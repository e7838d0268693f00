package i2cbustest

// PCA9685 is the model of an NXP PCA9685.
type PCA9685 struct {
	Chip
}

// NewPCA9685 is a chip after power-on: its oscillator off, all outputs off.
func NewPCA9685() *PCA9685 {
	p := &PCA9685{}
	p.Chip = Chip{Written: p.written, Fixed: func(c *Chip) bool { return c.Registers[0]&0x20 == 0 }}
	p.PowerCycle()
	return p
}

// PowerCycle resets all registers.
func (p *PCA9685) PowerCycle() {
	p.Registers = [256]byte{0x00: 0x11, 0x01: 0x04, 0xFE: 0x1E}
	for n := range 16 {
		p.Registers[0x09+4*n] = 0x10
	}
	p.Registers[0xFD] = 0x10
}

func (p *PCA9685) written(c *Chip, reg, value byte) {
	asleep := c.Registers[0]&0x10 != 0
	switch {
	case reg == 0x00:
		p.mode1(value)
	case reg == 0xFE:
		if asleep {
			c.Registers[0xFE] = max(value, 3)
		}
	case reg >= 0xFA && reg <= 0xFD:
		for n := range byte(16) {
			c.Registers[0x06+4*n+reg-0xFA] = value
		}
	default:
		c.Registers[reg] = value
	}
}

// mode1 keeps RESTART as the chip does: set by falling asleep while a PWM
// runs, cleared by writing 1 to it while awake.
func (p *PCA9685) mode1(value byte) {
	old := p.Registers[0]
	restart := old & 0x80
	if value&0x10 != 0 && old&0x10 == 0 && p.running() {
		restart = 0x80
	}
	if value&0x80 != 0 && value&0x10 == 0 {
		restart = 0
	}
	p.Registers[0] = value&0x7F | restart
}

func (p *PCA9685) running() bool {
	for n := range 16 {
		if p.Registers[0x09+4*n]&0x10 == 0 {
			return true
		}
	}
	return false
}

// Ticks is the length of an output's pulse in 4096ths of the period: 0 where
// the oscillator is off, or the output.
func (p *PCA9685) Ticks(pin int) int {
	r := p.Registers[0x06+4*pin:][:4]
	on, off := int(r[0])|int(r[1])<<8, int(r[2])|int(r[3])<<8
	switch {
	case p.Registers[0]&0x90 != 0: // asleep, or waiting for its restart
		return 0
	case off&0x1000 != 0:
		return 0
	case on&0x1000 != 0:
		return 4096
	}
	return (off - on + 4096) % 4096
}
