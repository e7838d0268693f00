package dynamixel

import (
	"bytes"
	"encoding/binary"

	"optibfm/hal"
	"optibfm/hal/servobus"
)

// Instructions of Protocol 2.0 (e-manual, "Instruction Packet").
const (
	Ping      = 0x01
	ReadData  = 0x02
	WriteData = 0x03
	Status    = 0x55
	SyncRead  = 0x82
	SyncWrite = 0x83
)

// Broadcast is the ID that addresses every servo.
const (
	Broadcast = 0xFE
)

// Bits of a status packet's first parameter.
const (
	Alert     = 0x80 // hardware error, see register 70
	ErrorMask = 0x7F // why the servo rejected the instruction; 0: it did not
)

const (
	headerSize = 7 // FF FF FD 00, ID, length
	crcSize    = 2
	maxLength  = 512 // of the length field; real packets are far shorter
)

var header = []byte{0xFF, 0xFF, 0xFD, 0x00}

// Packet is an instruction packet, or with Instruction = Status a status packet, whose first
// parameter is the error byte.
type Packet struct {
	ID, Instruction byte
	Params          []byte
}

// AppendPacket appends the encoded packet to dst: header, byte stuffing, CRC.
func AppendPacket(dst []byte, p Packet) []byte {
	start := len(dst)
	dst = append(dst, header...)
	dst = append(dst, p.ID, 0, 0, p.Instruction)
	dst = appendStuffed(dst, p.Params)
	binary.LittleEndian.PutUint16(dst[start+5:], uint16(len(dst)-start-headerSize+crcSize))
	return binary.LittleEndian.AppendUint16(dst, CRC(dst[start:]))
}

// appendStuffed adds an FD to each FF FF FD, which otherwise looks like a header.
func appendStuffed(dst, params []byte) []byte {
	for i, b := range params {
		dst = append(dst, b)
		if b == 0xFD && i >= 2 && params[i-1] == 0xFF && params[i-2] == 0xFF {
			dst = append(dst, 0xFD)
		}
	}
	return dst
}

// unstuff removes the added FDs in place. It compares with the received bytes, which the result
// overwrites.
func unstuff(params []byte) []byte {
	kept := params[:0]
	var last [3]byte // the preceding bytes as received
	for _, b := range params {
		if b != 0xFD || last != [3]byte{0xFF, 0xFF, 0xFD} {
			kept = append(kept, b)
		}
		last = [3]byte{last[1], last[2], b}
	}
	return kept
}

// Decode decodes the first packet in b and skips what precedes it. used is the number of bytes to
// discard, also after an error. The error is servobus.ErrIncomplete, hal.ErrChecksum or
// hal.ErrProtocol. The parameters are unstuffed inside b.
func Decode(b []byte) (p Packet, used int, err error) {
	start := bytes.Index(b, header)
	if start < 0 {
		return p, len(b) - min(len(b), len(header)-1), servobus.ErrIncomplete
	}
	rest := b[start:]
	if len(rest) < headerSize {
		return p, start, servobus.ErrIncomplete
	}
	length := int(binary.LittleEndian.Uint16(rest[5:]))
	if length < 1+crcSize || length > maxLength {
		return p, start + len(header), hal.ErrProtocol
	}
	size := headerSize + length
	if len(rest) < size {
		return p, start, servobus.ErrIncomplete
	}
	if CRC(rest[:size-crcSize]) != binary.LittleEndian.Uint16(rest[size-crcSize:]) {
		return p, start + len(header), hal.ErrChecksum // a header inside it may be the real one
	}
	p = Packet{ID: rest[4], Instruction: rest[headerSize], Params: unstuff(rest[headerSize+1 : size-crcSize])}
	return p, start + size, nil
}

// CRC returns the CRC-16 with polynomial 0x8005 and initial value 0, most significant bit first
// (e-manual, "CRC Calculation").
func CRC(b []byte) uint16 {
	var crc uint16
	for _, v := range b {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^v]
	}
	return crc
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x8005
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
