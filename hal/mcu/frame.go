package mcu

import (
	"encoding/binary"
	"errors"

	"optibfm/hal"
)

// Version is the version of the protocol.
const Version = 1

// The message types.
const (
	Hello    = 0x01
	Describe = 0x02
	Arm      = 0x03
	Command  = 0x04
	Halt     = 0x05
	Welcome  = 0x81
	Channel  = 0x82
	State    = 0x83
	Sample   = 0x84
)

// The states of the firmware.
const (
	Halted = 0
	Armed  = 1
)

// MaxChannels is the largest number of inputs, and of outputs, that fit into a frame.
const MaxChannels = 48

const (
	maxFrame     = 254 // before encoding, so that COBS adds one code byte
	frameHead    = 2   // type, seq
	frameTail    = 2   // CRC
	maxText      = 32  // bytes of a name or unit
	sampleHead   = 11
	welcomeHead  = 3
	stateSize    = 4
	frameStuffed = 2 // code byte and final zero
)

// ErrIncomplete is Decoder.Next's error for a frame that needs more bytes.
var ErrIncomplete = errors.New("mcu: frame incomplete")

// Frame is one message. Its payload is valid until the next use of the decoder.
type Frame struct {
	Type, Seq byte
	Payload   []byte
}

// AppendFrame appends the encoded frame, with the final zero. It panics for a payload of more than
// 250 bytes.
func AppendFrame(dst []byte, f Frame) []byte {
	if len(f.Payload) > maxFrame-frameHead-frameTail {
		panic("mcu: payload longer than a frame")
	}
	code := len(dst)
	dst = append(dst, 0)
	crc := uint16(crcStart)
	put := func(b byte) {
		if b == 0 {
			dst[code] = byte(len(dst) - code)
			code = len(dst)
		}
		dst = append(dst, b) // a zero makes room for the next code
	}
	put(f.Type)
	put(f.Seq)
	crc = crcOf(crc, f.Type)
	crc = crcOf(crc, f.Seq)
	for _, b := range f.Payload {
		put(b)
		crc = crcOf(crc, b)
	}
	put(byte(crc))
	put(byte(crc >> 8))
	dst[code] = byte(len(dst) - code)
	return append(dst, 0)
}

// Decoder splits a stream into frames. The zero value starts in the middle of one: it discards the
// bytes before the first zero.
type Decoder struct {
	frame  [maxFrame + 1]byte // encoded
	size   int
	synced bool
	long   bool // the present frame is too long
}

// Reset discards received bytes.
func (d *Decoder) Reset() { d.size, d.synced, d.long = 0, false, false }

// Next decodes bytes of b until the end of a frame. used is their number. The error is
// ErrIncomplete when b ends first, or the fault of the frame: hal.ErrChecksum, hal.ErrShort or
// hal.ErrProtocol.
func (d *Decoder) Next(b []byte) (f Frame, used int, err error) {
	for i, v := range b {
		if v != 0 {
			d.append(v)
			continue
		}
		size, long, whole := d.size, d.long, d.synced
		d.size, d.long, d.synced = 0, false, true
		switch {
		case !whole || size == 0:
			continue
		case long:
			return f, i + 1, hal.ErrProtocol
		}
		f, err = parse(d.frame[:size])
		return f, i + 1, err
	}
	return f, len(b), ErrIncomplete
}

func (d *Decoder) append(v byte) {
	if d.size == len(d.frame) {
		d.long = true
		return
	}
	d.frame[d.size] = v
	d.size++
}

// parse decodes COBS in place and checks the CRC.
func parse(coded []byte) (Frame, error) {
	n := 0
	for i := 0; i < len(coded); {
		block := int(coded[i])
		if block > len(coded)-i {
			return Frame{}, hal.ErrProtocol
		}
		n += copy(coded[n:], coded[i+1:i+block])
		if i += block; i < len(coded) {
			coded[n] = 0
			n++
		}
	}
	plain := coded[:n]
	if len(plain) < frameHead+frameTail {
		return Frame{}, hal.ErrShort
	}
	crc := uint16(crcStart)
	for _, b := range plain[:n-frameTail] {
		crc = crcOf(crc, b)
	}
	if crc != binary.LittleEndian.Uint16(plain[n-frameTail:]) {
		return Frame{}, hal.ErrChecksum
	}
	return Frame{Type: plain[0], Seq: plain[1], Payload: plain[frameHead : n-frameTail]}, nil
}

const (
	crcStart      = 0xFFFF
	crcPolynomial = 0x1021
)

// crcOf updates a CRC-16/CCITT-FALSE with a byte.
func crcOf(crc uint16, b byte) uint16 { return crc<<8 ^ crcTable[byte(crc>>8)^b] }

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ crcPolynomial
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
