package bridge

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"time"
)

// script is a connection whose peer sends prepared bytes.
type script struct {
	net.Conn // nil: what is not below is not called
	sent     io.Reader
	written  bytes.Buffer
}

func newScript(sent []byte) *script { return &script{sent: bytes.NewReader(sent)} }

func (s *script) Read(b []byte) (int, error)       { return s.sent.Read(b) }
func (s *script) Write(b []byte) (int, error)      { return s.written.Write(b) }
func (s *script) Close() error                     { return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

func (h header) bytes() []byte {
	b := make([]byte, headerSize)
	h.put(b)
	return b
}

func frame(k kind, seq uint32, payload []byte) []byte {
	return append(header{kind: k, seq: seq, length: uint32(len(payload))}.bytes(), payload...)
}

func floats(values ...float32) []byte { return appendFloats(nil, values) }

func u64(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
