package dynamixel

import (
	"encoding/binary"

	"optibfm/hal/servobus"
)

// protocol2 implements servobus.Protocol. It holds a buffer for parameters.
type protocol2 struct{ params []byte }

func newProtocol(servos int) *protocol2 {
	return &protocol2{params: make([]byte, 0, 4+servos*(1+servobus.MaxBlock))}
}

func (p *protocol2) AppendRead(dst []byte, id byte, register, size int) []byte {
	return p.append(dst, id, ReadData, register, size, nil)
}

func (p *protocol2) AppendSyncRead(dst []byte, register, size int, ids []byte) []byte {
	return p.append(dst, Broadcast, SyncRead, register, size, ids)
}

func (p *protocol2) AppendSyncWrite(dst []byte, register, size int, data []byte) []byte {
	return p.append(dst, Broadcast, SyncWrite, register, size, data)
}

func (p *protocol2) append(dst []byte, id, instruction byte, register, size int, rest []byte) []byte {
	params := binary.LittleEndian.AppendUint16(p.params[:0], uint16(register))
	params = binary.LittleEndian.AppendUint16(params, uint16(size))
	p.params = append(params, rest...)
	return AppendPacket(dst, Packet{ID: id, Instruction: instruction, Params: p.params})
}

func (p *protocol2) Decode(b []byte) (servobus.Status, int, error) {
	packet, used, err := Decode(b)
	if err != nil || packet.Instruction != Status || len(packet.Params) == 0 {
		return servobus.Status{ID: servobus.NoServo}, used, err
	}
	code := packet.Params[0]
	return servobus.Status{
		ID: packet.ID, Rejected: code&ErrorMask != 0, Alert: code&Alert != 0, Data: packet.Params[1:],
	}, used, nil
}
