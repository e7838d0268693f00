// Package shm is the memory that two processes share: a control process that
// must never wait, and a host process that may do anything.
//
// A [Layout] names the sections of a segment. The parent makes the segment
// ([Create]: a memfd whose size is sealed), takes its own ends, and passes the
// descriptor on; the child states the same layout and opens it ([Open]). In
// tests, and where both halves run in one process, [New] makes the same thing
// in ordinary memory.
//
// # Sections
//
// A mailbox carries the newest message of one writer to one reader. There are
// three buffers: the writer fills one, the reader looks at one, and one lies
// between them. To publish and to read is to exchange the own buffer for the
// middle one, by one atomic swap of an index. So the newest message wins,
// nobody waits, and no buffer is read while it is written. (A sequence lock
// would copy bytes that may change under the copy: a data race by Go's memory
// model, and on arm64 a copy that can be torn and yet pass its check.)
//
// A ring carries messages in order from one producer to one consumer, in slots
// of a fixed size. When it is full, [Producer.Reserve] drops the message and
// counts it, and the consumer sees the gap in the numbers;
// [Producer.TryReserve] refuses it and leaves it with the caller.
//
// A word is an atomic uint64: a heartbeat, a stop flag, a counter.
//
// # Guarantees
//
// Every operation on an endpoint is wait-free, takes no system call and
// allocates nothing. There are no wake-ups: the control process polls in its
// tick, and the host polls at the rate that it needs; waking it would cost the
// control thread a system call whose time depends on the host.
//
// The peer is not trusted. Positions and buffers of the own end are kept in
// private memory; what is read from the segment is checked before it is used
// as an index, and something impossible closes the endpoint: from then on it
// gives no message and Err returns a [*CorruptError]. What is inside a message
// is the caller's to check, after copying it: a hostile peer may write to any
// byte at any time.
//
// A process that dies, at any instruction, leaves the other end intact: at
// worst the message that it was writing is missing. Each end of a section can
// be taken once, because its private state dies with its process: a restarted
// process gets a new segment.
package shm
