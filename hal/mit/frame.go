package mit

import (
	"math"

	"optibfm/hal"
	"optibfm/hal/can"
)

// The last byte of the special commands. The first seven are FF.
const (
	Enter   = 0xFC
	Exit    = 0xFD
	SetZero = 0xFE
	Clear   = 0xFB // clears an error; damiao only
)

// Range is the range of a motor's codes: position, velocity and torque from minus to plus the
// maximum, gains from 0.
type Range struct {
	PMax, VMax, TMax, KpMax, KdMax float64
}

// Goal is the command of a frame: the motor produces the torque
// Kp (Position - position) + Kd (Velocity - velocity) + Torque.
type Goal struct {
	Position, Velocity, Torque float64 // rad, rad/s, N·m
	Kp, Kd                     float64
}

// Answer is the state that a motor reports.
type Answer struct {
	Position, Velocity, Torque float64
}

const (
	wide        = 16 // bits of a position
	narrow      = 12 // bits of everything else
	answerSize  = 6  // ID, position, velocity, torque
	longAnswer  = 8
	errorCodeAt = 7
)

// encode returns the nearest code of x, limited to the range. Halves are rounded down, so that 0
// has the published code.
func encode(x, low, high float64, bits int) uint32 {
	top := float64(uint32(1)<<bits - 1)
	return uint32(min(max(math.Ceil((x-low)/(high-low)*top-0.5), 0), top))
}

func decode(code uint32, low, high float64, bits int) float64 {
	return low + float64(code)*(high-low)/float64(uint32(1)<<bits-1)
}

// Pack encodes a command: position in 16 bits, velocity, Kp, Kd and torque in 12 bits each, most
// significant bit first.
func (r Range) Pack(data *[8]byte, g Goal) {
	p := encode(g.Position, -r.PMax, r.PMax, wide)
	v := encode(g.Velocity, -r.VMax, r.VMax, narrow)
	kp := encode(g.Kp, 0, r.KpMax, narrow)
	kd := encode(g.Kd, 0, r.KdMax, narrow)
	t := encode(g.Torque, -r.TMax, r.TMax, narrow)
	*data = [8]byte{
		byte(p >> 8), byte(p),
		byte(v >> 4), byte(v<<4) | byte(kp>>8),
		byte(kp),
		byte(kd >> 4), byte(kd<<4) | byte(t>>8),
		byte(t),
	}
}

// Unpack decodes a command. It is for the motor's side.
func (r Range) Unpack(data [8]byte) Goal {
	return Goal{
		Position: decode(uint32(data[0])<<8|uint32(data[1]), -r.PMax, r.PMax, wide),
		Velocity: decode(uint32(data[2])<<4|uint32(data[3])>>4, -r.VMax, r.VMax, narrow),
		Kp:       decode(uint32(data[3]&15)<<8|uint32(data[4]), 0, r.KpMax, narrow),
		Kd:       decode(uint32(data[5])<<4|uint32(data[6])>>4, 0, r.KdMax, narrow),
		Torque:   decode(uint32(data[6]&15)<<8|uint32(data[7]), -r.TMax, r.TMax, narrow),
	}
}

// PackAnswer encodes an answer after its first byte. It is for the motor's side.
func (r Range) PackAnswer(data *[8]byte, a Answer) {
	p := encode(a.Position, -r.PMax, r.PMax, wide)
	v := encode(a.Velocity, -r.VMax, r.VMax, narrow)
	t := encode(a.Torque, -r.TMax, r.TMax, narrow)
	data[1], data[2] = byte(p>>8), byte(p)
	data[3], data[4] = byte(v>>4), byte(v<<4)|byte(t>>8)
	data[5] = byte(t)
}

// UnpackAnswer decodes an answer. The error is hal.ErrShort.
func (r Range) UnpackAnswer(f *can.Frame) (Answer, error) {
	if f.Len < answerSize {
		return Answer{}, hal.ErrShort
	}
	d := &f.Data
	return Answer{
		Position: decode(uint32(d[1])<<8|uint32(d[2]), -r.PMax, r.PMax, wide),
		Velocity: decode(uint32(d[3])<<4|uint32(d[4])>>4, -r.VMax, r.VMax, narrow),
		Torque:   decode(uint32(d[4]&15)<<8|uint32(d[5]), -r.TMax, r.TMax, narrow),
	}, nil
}
