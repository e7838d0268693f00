// Package shm is the memory that two processes share: a control process that must
// never block, and a host process without time limits.
//
// A [Layout] names the sections of a segment. The parent creates the segment
// ([Create]: a memfd with a sealed size), takes its own ends, and passes the
// descriptor on. The child opens it with the same layout ([Open]). For tests, and
// for both halves in one process, [New] creates a segment in ordinary memory.
//
// # Sections
//
// A mailbox carries the newest message of one writer to one reader. It has three
// buffers: the writer fills one, the reader reads one, and one lies between them.
// To publish and to read, each side exchanges its own buffer for the middle one,
// by one atomic swap of an index. The newest message wins, neither side waits, and
// the reader never reads a buffer during a write. (A sequence lock copies bytes that may
// change during the copy. That is a data race in Go's memory model, and on arm64 a
// torn copy can pass its check.)
//
// A ring carries messages in order from one producer to one consumer, in slots of a
// fixed size. When it is full, [Producer.Reserve] refuses the message.
//
// A word is an atomic uint64: a heartbeat, a stop flag, a counter.
//
// # Guarantees
//
// Every operation on an endpoint is wait-free, makes no system call and does not
// allocate. The package has no wake-ups: the control process polls in its tick, and
// package ipc wakes the host with futexes on words.
//
// An endpoint does not trust its peer. It keeps its own positions and buffers in
// private memory. It checks every value of the segment before it uses it as an
// index. An impossible value closes the endpoint: it then gives no message, and Err
// returns a [*CorruptError]. The caller must copy a message and then check its
// content: a hostile peer may write to any byte at any time.
//
// If a process dies at any instruction, the other end stays intact: at most the
// unfinished message is missing. Each end of a section can be taken once, because
// its private state ends with its process. A restarted process needs a new segment.
package shm
