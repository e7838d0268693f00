package i2cbustest

// Chip is a device with 256 registers of a byte, addressed by the first byte of a
// write. The zero value has zeros in all registers.
type Chip struct {
	Registers [256]byte

	// Unplugged chips do not acknowledge.
	Unplugged bool
	// Flip has the bits to flip in each register read: noise on the wire.
	Flip [256]byte

	// Written is called for each written byte and must store it. Nil: the byte
	// is stored.
	Written func(c *Chip, reg, value byte)
	// Before is called before a read.
	Before func(c *Chip, reg byte)
	// Fixed reports whether the chip does not advance to the next register.
	// Nil: it advances.
	Fixed func(c *Chip) bool

	pointer byte
}

func (c *Chip) transact(w, r []byte) error {
	if len(w) > 0 {
		c.pointer = w[0]
		for _, value := range w[1:] {
			c.write(value)
		}
	}
	if len(r) == 0 {
		return nil
	}
	if c.Before != nil {
		c.Before(c, c.pointer)
	}
	for i := range r {
		r[i] = c.Registers[c.pointer] ^ c.Flip[c.pointer]
		c.next()
	}
	return nil
}

func (c *Chip) write(value byte) {
	if c.Written == nil {
		c.Registers[c.pointer] = value
	} else {
		c.Written(c, c.pointer, value)
	}
	c.next()
}

func (c *Chip) next() {
	if c.Fixed == nil || !c.Fixed(c) {
		c.pointer++
	}
}

// Big stores 16-bit numbers in the registers from reg on, high byte first.
func (c *Chip) Big(reg byte, values ...int16) {
	for _, v := range values {
		c.Registers[reg], c.Registers[reg+1] = byte(uint16(v)>>8), byte(v)
		reg += 2
	}
}

// Little is Big with the low byte first.
func (c *Chip) Little(reg byte, values ...int16) {
	for _, v := range values {
		c.Registers[reg], c.Registers[reg+1] = byte(v), byte(uint16(v)>>8)
		reg += 2
	}
}
