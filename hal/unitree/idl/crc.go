package idl

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"reflect"
	"unsafe"
)

// Message is a message whose last word is its checksum.
type Message interface {
	Go2Command | Go2State | G1Command | G1State
}

// Summer computes the checksum of messages of one type without allocating. One goroutine uses it.
type Summer[T Message] struct {
	padding []int  // offsets of the bytes between members
	scratch []byte // the message as CRC-32 of the standard library must read it
}

// NewSummer returns a Summer.
func NewSummer[T Message]() *Summer[T] {
	t := reflect.TypeFor[T]()
	used := make([]bool, t.Size())
	markMembers(t, used)
	s := &Summer[T]{scratch: make([]byte, len(used)-4)}
	for i, u := range used {
		if !u {
			s.padding = append(s.padding, i)
		}
	}
	return s
}

func markMembers(t reflect.Type, used []bool) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			markMembers(f.Type, used[f.Offset:])
		}
	case reflect.Array:
		for i := range t.Len() {
			markMembers(t.Elem(), used[uintptr(i)*t.Elem().Size():])
		}
	default:
		for i := range t.Size() {
			used[i] = true
		}
	}
}

// Sum zeroes the bytes between the members of m and returns the checksum of m without its last
// word. CRC-32/MPEG-2 takes each word's most significant bit first and the CRC-32 of the standard
// library its least significant one: the bits of the words and of the result are reversed.
func (s *Summer[T]) Sum(m *T) uint32 {
	mem := Bytes(m)
	for _, i := range s.padding {
		mem[i] = 0
	}
	for i := 0; i < len(s.scratch); i += 4 {
		binary.LittleEndian.PutUint32(s.scratch[i:], bits.Reverse32(binary.LittleEndian.Uint32(mem[i:])))
	}
	return bits.Reverse32(^crc32.ChecksumIEEE(s.scratch))
}

// Bytes returns the memory of a message.
func Bytes[T Message](m *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(m)), unsafe.Sizeof(*m))
}
