package can

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"optibfm/hal"
)

// Frame is a classic CAN frame.
type Frame struct {
	ID       uint32 // 11 bits, or 29 where Extended
	Extended bool
	Remote   bool
	Len      uint8 // of Data, up to 8
	Data     [8]byte
}

// Size is the size of the kernel's struct can_frame (linux/can.h).
const Size = 16

const (
	lenAt  = 4
	dataAt = 8
)

// Marshal writes f as the kernel's struct can_frame.
func (f *Frame) Marshal(b *[Size]byte) {
	id := f.ID & unix.CAN_SFF_MASK
	if f.Extended {
		id = f.ID&unix.CAN_EFF_MASK | unix.CAN_EFF_FLAG
	}
	if f.Remote {
		id |= unix.CAN_RTR_FLAG
	}
	clear(b[:])
	binary.NativeEndian.PutUint32(b[:], id)
	b[lenAt] = min(f.Len, 8)
	copy(b[dataAt:], f.Data[:])
}

// Unmarshal reads a struct can_frame. isError reports an error frame of the controller, with its
// class in ID, in place of a frame of the bus. The error is hal.ErrProtocol.
func (f *Frame) Unmarshal(b *[Size]byte) (isError bool, err error) {
	id := binary.NativeEndian.Uint32(b[:])
	if b[lenAt] > 8 {
		return false, hal.ErrProtocol
	}
	*f = Frame{ID: id & unix.CAN_SFF_MASK, Remote: id&unix.CAN_RTR_FLAG != 0, Len: b[lenAt]}
	switch {
	case id&unix.CAN_ERR_FLAG != 0:
		f.ID, isError = id&unix.CAN_ERR_MASK, true
	case id&unix.CAN_EFF_FLAG != 0:
		f.ID, f.Extended = id&unix.CAN_EFF_MASK, true
	}
	copy(f.Data[:], b[dataAt:])
	return isError, nil
}
