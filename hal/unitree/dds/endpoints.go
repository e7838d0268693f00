package dds

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"

	"optibfm/hal/unitree/idl"
)

// Writer writes messages of type T, whose memory is that of C.
type Writer[T any] struct {
	lib       *Library
	entity    int32
	message   *T
	arguments [2]uintptr
	handles   [1]uint64
}

// NewWriter opens a writer of the newest message.
func NewWriter[T any](p *Participant, topic string, d idl.Descriptor) (*Writer[T], error) {
	if unsafe.Sizeof(*new(T)) != uintptr(d.Size) {
		return nil, fmt.Errorf("dds: %s: %d bytes in Go, %d in C", d.Name, unsafe.Sizeof(*new(T)), d.Size)
	}
	e, err := p.endpoint(p.lib.call.createWriter, topic, d, reliable, 1)
	return &Writer[T]{lib: p.lib, entity: e, message: new(T)}, err
}

// Message returns the memory that Write sends.
func (w *Writer[T]) Message() *T { return w.message }

// Write sends the message. It may wait a millisecond for a slow reliable reader.
func (w *Writer[T]) Write() error {
	w.arguments = [2]uintptr{uintptr(w.entity), uintptr(unsafe.Pointer(w.message))}
	r, _, _ := purego.SyscallN(w.lib.call.write, w.arguments[:]...)
	runtime.KeepAlive(w)
	if c := int32(r); c < 0 {
		return fmt.Errorf("dds: write: %w", w.lib.failure(c))
	}
	return nil
}

// Readers returns the number of matched readers.
func (w *Writer[T]) Readers() int {
	f := &w.lib.call
	r, _, _ := purego.SyscallN(f.matchedSubscriptions, uintptr(w.entity), uintptr(unsafe.Pointer(&w.handles[0])), 1)
	runtime.KeepAlive(w)
	return max(0, int(int32(r)))
}

// Reader takes messages of type T.
type Reader[T any] struct {
	lib       *Library
	entity    int32
	message   *T
	samples   [1]unsafe.Pointer
	info      sampleInfo
	arguments [5]uintptr
	handles   [maxWriters]uint64
}

// maxWriters is the number of writers of one topic that a reader looks at.
const maxWriters = 16

// sampleInfo is dds_sample_info_t.
type sampleInfo struct {
	states                 [3]uint32
	valid                  uint8
	sourceTime             int64
	instance, publication  uint64
	generations, ranksEtc  [2]uint32
	absoluteGenerationRank uint32
}

// NewReader opens a best-effort reader of the newest depth messages.
func NewReader[T any](p *Participant, topic string, d idl.Descriptor, depth int) (*Reader[T], error) {
	if unsafe.Sizeof(*new(T)) != uintptr(d.Size) {
		return nil, fmt.Errorf("dds: %s: %d bytes in Go, %d in C", d.Name, unsafe.Sizeof(*new(T)), d.Size)
	}
	e, err := p.endpoint(p.lib.call.createReader, topic, d, bestEffort, uintptr(depth))
	return &Reader[T]{lib: p.lib, entity: e, message: new(T)}, err
}

// Take takes the oldest message that was not taken, for messages of fixed size. The result is valid
// until the next call; nil: none. writer identifies the one that wrote it, see Writers.
func (r *Reader[T]) Take() (message *T, writer uint64, err error) {
	r.samples[0] = unsafe.Pointer(r.message)
	r.arguments = [5]uintptr{
		uintptr(r.entity), uintptr(unsafe.Pointer(&r.samples[0])), uintptr(unsafe.Pointer(&r.info)), 1, 1,
	}
	n, _, _ := purego.SyscallN(r.lib.call.take, r.arguments[:]...)
	runtime.KeepAlive(r)
	switch c := int32(n); {
	case c < 0:
		return nil, 0, fmt.Errorf("dds: take: %w", r.lib.failure(c))
	case c == 0 || r.info.valid == 0: // 0: a writer left
		return nil, 0, nil
	}
	return r.message, r.info.publication, nil
}

// builtinEndpoint is the start of dds_builtintopic_endpoint_t.
type builtinEndpoint struct {
	key, participant GUID
}

// WriterOf is a writer that a reader found.
type WriterOf struct {
	Handle      uint64 // as Take returns it
	Participant GUID
}

// Writers appends the writers of the topic to dst, at most 16.
func (r *Reader[T]) Writers(dst []WriterOf) ([]WriterOf, error) {
	f := &r.lib.call
	n, _, _ := purego.SyscallN(f.matchedPublications,
		uintptr(r.entity), uintptr(unsafe.Pointer(&r.handles[0])), maxWriters)
	if c := int32(n); c < 0 {
		return dst, fmt.Errorf("dds: writers: %w", r.lib.failure(c))
	}
	for _, h := range r.handles[:min(int(int32(n)), maxWriters)] {
		e, _, _ := purego.SyscallN(f.publicationData, uintptr(r.entity), uintptr(h))
		if e == 0 {
			continue // it has just left
		}
		dst = append(dst, WriterOf{h, (*builtinEndpoint)(pointer(e)).participant})
		purego.SyscallN(f.freeEndpoint, e)
	}
	runtime.KeepAlive(r)
	return dst, nil
}
