package feetech

import (
	"bytes"

	"optibfm/hal"
	"optibfm/hal/servobus"
)

// Instructions (manual, 1.3). A status packet has the servo's status in this place.
const (
	Ping      = 0x01
	ReadData  = 0x02
	WriteData = 0x03
	SyncRead  = 0x82
	SyncWrite = 0x83
)

// Broadcast is the ID that addresses every servo.
const (
	Broadcast = 0xFE
)

const (
	headSize  = 4 // FF FF, ID, length
	minPacket = headSize + 2
)

var header = []byte{0xFF, 0xFF}

// Packet is an instruction packet with an instruction in Code, or a status packet with the servo's
// status: 0, or bits for voltage, sensor, temperature, current, angle and overload.
type Packet struct {
	ID, Code byte
	Params   []byte
}

// AppendPacket appends the encoded packet to dst: header, length, checksum. Params have at most 253
// bytes.
func AppendPacket(dst []byte, p Packet) []byte {
	start := len(dst)
	dst = append(dst, header...)
	dst = append(dst, p.ID, byte(len(p.Params)+2), p.Code)
	dst = append(dst, p.Params...)
	return append(dst, checksum(dst[start+len(header):]))
}

// checksum returns the complement of the sum of all bytes after the header.
func checksum(b []byte) byte {
	var sum byte
	for _, v := range b {
		sum += v
	}
	return ^sum
}

// Decode decodes the first packet in b and skips what precedes it. used is the number of bytes to
// discard, also after an error. The error is servobus.ErrIncomplete, hal.ErrChecksum or
// hal.ErrProtocol.
func Decode(b []byte) (p Packet, used int, err error) {
	start := bytes.Index(b, header)
	if start < 0 {
		return p, len(b) - trailing(b), servobus.ErrIncomplete
	}
	for start+2 < len(b) && b[start+2] == 0xFF { // of more than two FF, the last two are the header
		start++
	}
	rest := b[start:]
	if len(rest) < headSize {
		return p, start, servobus.ErrIncomplete
	}
	size := headSize + int(rest[3])
	if size < minPacket {
		return p, start + len(header), hal.ErrProtocol
	}
	if len(rest) < size {
		return p, start, servobus.ErrIncomplete
	}
	if checksum(rest[len(header):size-1]) != rest[size-1] {
		return p, start + len(header), hal.ErrChecksum // a header inside it may be the real one
	}
	return Packet{ID: rest[2], Code: rest[4], Params: rest[headSize+1 : size-1]}, start + size, nil
}

// trailing returns the number of bytes at the end that may begin a header.
func trailing(b []byte) int {
	if len(b) > 0 && b[len(b)-1] == 0xFF {
		return 1
	}
	return 0
}

// signed decodes a register with the sign in bit 15.
func signed(b []byte) int {
	magnitude := int(b[0]) | int(b[1]&0x7F)<<8
	if b[1]&0x80 != 0 {
		return -magnitude
	}
	return magnitude
}

// appendSigned encodes a value from -32767 to 32767.
func appendSigned(dst []byte, v int) []byte {
	var sign byte
	if v < 0 {
		v, sign = -v, 0x80
	}
	return append(dst, byte(v), byte(v>>8)|sign)
}

// protocol implements servobus.Protocol. It holds a buffer for parameters.
type protocol struct{ params []byte }

func newProtocol(servos int) *protocol {
	return &protocol{params: make([]byte, 0, 2+servos*(1+servobus.MaxBlock))}
}

func (p *protocol) AppendRead(dst []byte, id byte, register, size int) []byte {
	return p.append(dst, id, ReadData, register, size, nil)
}

func (p *protocol) AppendSyncRead(dst []byte, register, size int, ids []byte) []byte {
	return p.append(dst, Broadcast, SyncRead, register, size, ids)
}

func (p *protocol) AppendSyncWrite(dst []byte, register, size int, data []byte) []byte {
	return p.append(dst, Broadcast, SyncWrite, register, size, data)
}

func (p *protocol) append(dst []byte, id, instruction byte, register, size int, rest []byte) []byte {
	p.params = append(append(p.params[:0], byte(register), byte(size)), rest...)
	return AppendPacket(dst, Packet{ID: id, Code: instruction, Params: p.params})
}

// Decode implements servobus.Protocol. A packet to all servos is the echo of a request. The echo of
// a request to one servo looks like its answer: an adapter with an echo needs the port's echo
// option.
func (p *protocol) Decode(b []byte) (servobus.Status, int, error) {
	packet, used, err := Decode(b)
	if err != nil || packet.ID == Broadcast {
		return servobus.Status{ID: servobus.NoServo}, used, err
	}
	return servobus.Status{ID: packet.ID, Alert: packet.Code&statusFaults != 0, Data: packet.Params}, used, nil
}
